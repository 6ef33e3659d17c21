// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "lockstep/graph/executable.h"
#include "lockstep/graph/graph.h"
#include "lockstep/graph/program.h"

// What happens to a graph on its way to a program, in this order. A pass from graph to graph keeps
// the inputs and outputs, in number and meaning.
namespace lockstep::passes {

// Throws InternalError that names the pass when the graph is not well formed: order, counts, and
// inference giving the infos that the nodes carry; and slices that meet nowhere but where they are
// brought together (graph/slice_types.h).
void verify(const Graph& graph, const char* after_pass);

// Constants folded, identities and common sub-expressions removed, values that nobody reads
// dropped.
Graph simplify(const Graph& graph);

// Gradients of slices that make up a whole are joined, not padded and added.
Graph join_slices(const Graph& graph);
// Activation into convolution and dense; flatten into dense; batch norm with relu, both ways.
Graph fuse_activations(const Graph& graph);
// Outputs of norms are made again in the backward pass instead of being kept.
Graph recompute(const Graph& graph);
// A matrix product or convolution of float32: what mixed precision computes otherwise.
bool is_product(const Node& node);
// The matrix products and convolutions in `dtype`, with conversions around them.
Graph mix_precision(const Graph& graph, DType dtype);
// Chains of element-wise float32 ops of one shape into one `fused_elementwise`.
Graph fuse_elementwise(const Graph& graph);

// Updates of states as early as their inputs allow, so that gradients die young.
Graph schedule(const Graph& graph, const CompileOptions& options);

// Of states that are not plain, by the number of the graph's input.
using StateLayouts = std::map<std::size_t, Layout>;

// Chooses kernels and layouts and inserts conversions. States have the given layouts, or those that
// their kernels like.
Program lower(const Graph& graph, const CompileOptions& options,
              const StateLayouts* given = nullptr);

// Puts what the early outputs need before all else, and what deliveries alone need behind all else
// where the options say so. Throws InternalError where the early outputs need a late input.
void split_parts(Program& program, const CompileOptions& options);

// Moves what depends on states and constants alone out of the steps, into the prologue.
void split_prologue(Program& program);

// Lets steps overwrite dying inputs, then gives every arena buffer its place.
void plan_memory(Program& program);

}  // namespace lockstep::passes
