// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep {

// What a value of a step with split layers is on the axis of slices: the same for all
// (kSameForSlices), or a slice's own, by number: its part of something, or its term of a sum.
// Constants are nobody's.
inline constexpr std::int32_t kNoSlice = -2;
using SliceTypes = std::vector<std::vector<std::int32_t>>;  // by node and output

struct SliceFault {
  std::int32_t node;
  std::string what;
};

// Where a graph is wrong: an op other than those that bring slices together reads two of them, or
// one beside what is the same for all; or an output is not of the slice that it should be. So no
// transfer can be left out, and what is not a slice's own is computed alike by all who do.
std::optional<SliceFault> find_slice_fault(const Graph& graph);

// Throws InternalError where there is a fault.
SliceTypes infer_slices(const Graph& graph);

// What a worker computes that has the slices [lo, hi): all that is the same for all, and theirs.
struct SlicesOf {
  Graph graph;
  std::vector<std::size_t> inputs, outputs;  // numbers of those of the whole graph that are there
};
SlicesOf take_slices(const Graph& graph, std::int64_t lo, std::int64_t hi);

}  // namespace lockstep
