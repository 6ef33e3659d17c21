// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep {

// Where a node of a step's graph is computed: in the forward or the backward pass of a segment. The
// passes run one after the other, forward 0, 1, ..., then backward ..., 1, 0.
struct Cell {
  std::int32_t segment = 0;
  bool backward = false;
  bool operator==(const Cell&) const = default;
};

// A value that one segment makes and others read. It goes from segment to neighbour: up with the
// forward passes to those above, down with the backward passes to those below.
struct CrossingValue {
  TensorInfo info;
  std::int32_t from = 0;         // the segment that makes it
  std::int32_t highest = 0;      // of the segments that read it: `from` where none above does
  std::int32_t lowest = 0;       // `from` where none below does
  bool is_made_forward = false;  // and not in the backward pass of `from`
  // It is the value of this input of the whole graph, a state of `from`.
  std::optional<std::size_t> state = {};
  std::int32_t slice = kSameForSlices;  // whose part it is, of a step with split layers
};

// One segment's passes, in one graph. Its inputs are those of the whole graph that are no states,
// the values that it reads of other segments, its states. Its outputs are the values that others
// read of it, then the outputs of the whole graph that it makes.
struct Segment {
  Graph graph;
  std::vector<std::size_t> read;     // crossing values, those that come from below first
  std::size_t from_below = 0;        // how many do: the others are there before the backward pass
  std::vector<std::size_t> states;   // inputs of the whole graph
  std::vector<std::size_t> made;     // crossing values, but for those that are states
  std::vector<std::size_t> outputs;  // of the whole graph
  std::vector<bool> is_early;        // by output: made by the forward pass
};

struct Segments {
  std::vector<Segment> segments;
  std::vector<CrossingValue> values;
  std::size_t shared_inputs = 0;  // those that are no states

  // The values that go from segment b to b + 1, and from b + 1 to b.
  std::vector<std::size_t> going_up(std::int32_t b) const;
  std::vector<std::size_t> going_down(std::int32_t b) const;
};

struct SegmentOptions {
  std::int32_t segments = 1;
  // Where the nodes are computed, by number; one that reads what is made later is computed there.
  std::vector<Cell> cells = {};
  std::vector<std::size_t> states = {};  // inputs that belong to one segment: the lowest reader
  // The segments that have the states already, one for each; what reads one is computed there or
  // above. Empty: nobody has them yet.
  std::vector<std::int32_t> homes = {};
  // Output number `first` is needed where state number `second` (of the inputs) is.
  std::vector<std::pair<std::size_t, std::size_t>> outputs_with_states = {};
};

// Cuts a graph. Inputs that are no states come first. What no output depends on is dropped. Throws
// Unsupported where an output is made below the state that it belongs to.
Segments cut_into_segments(const Graph& graph, const SegmentOptions& options);

}  // namespace lockstep
