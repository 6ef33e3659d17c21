// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/segments.h"
#include "lockstep/nn/block.h"
#include "lockstep/train/fields.h"
#include "lockstep/train/loss_function.h"
#include "lockstep/train/slice_plan.h"

namespace lockstep::train {

// A shard's work as a graph: forward in train mode, mean loss, gradients. Inputs are the fields of
// a batch, the random key, the parameters (the loss's after the net's); outputs are the loss, the
// accuracy (0 where there is none), new values of what no gradient makes (running statistics), the
// gradients; of tables with sparse gradients, ids and rows of each lookup instead.
struct StepGraph {
  struct Parameter {  // no handle: the contents belong to the net, or to the loss
    std::string name;
    Shape shape;
    nn::ParameterOptions options;
    // Of one that is cut there is a place for each slice, one after the other, with that slice's
    // shape.
    std::int32_t slice = kSameForSlices;
    SliceCut cut = {};
    Shape whole = {};  // the shape of all slices; its own where it is not cut

    bool is_slice() const { return slice != kSameForSlices; }
  };
  Graph graph;
  std::size_t fields = 0;
  FieldRoles roles;  // of the fields, with their names
  bool has_accuracy = false;
  bool shards_meet = false;  // some op is computed over all shards of a step
  std::int64_t slices = 1;   // that split layers are computed as
  std::vector<Parameter> parameters;
  std::vector<std::size_t> trainable;  // places in `parameters` that have a gradient, whole
  std::vector<std::size_t> tables;     // places that have gradients of rows
  std::vector<std::size_t> lookups;    // of which of the tables each is, in their order
  std::vector<std::size_t> updated;    // places that have a new value
  // Of a net that is cut: the blocks that begin segments, in the order of their calls, and where
  // each node of the graph is computed. Empty: it is not cut.
  std::vector<std::string> cuts;
  std::vector<Cell> cells;
  // The calls of blocks that the forward pass made, with the number of nodes before each; and the
  // number of its nodes.
  struct Call {
    const nn::Block* block;
    std::size_t node;
  };
  std::vector<Call> calls;
  std::size_t forward_nodes = 0;

  static constexpr std::size_t kLoss = 0, kAccuracy = 1, kFirstUpdate = 2;
  std::size_t key_input() const { return fields; }
  std::size_t parameter_input(std::size_t place) const { return fields + 1 + place; }
  std::size_t gradient_output(std::size_t i) const { return kFirstUpdate + updated.size() + i; }
  // Among the outputs of a run, which has no whole gradients: they are delivered.
  std::size_t ids_output(std::size_t lookup) const {
    return kFirstUpdate + updated.size() + 2 * lookup;
  }
  std::size_t rows_output(std::size_t lookup) const { return ids_output(lookup) + 1; }
};

// What a batch norm in train mode takes its statistics from.
struct BatchNormSize {
  std::string layer;  // its path in the net
  std::int64_t samples = 0;
  std::int64_t values = 0;  // of a channel
};
// Those of the step's graph, the one with the fewest values first.
std::vector<BatchNormSize> batch_norm_sizes(const StepGraph& step);

// Shapes that the net and the loss do not know yet are told by the fields; the step is on their
// device. Without roles the fields are an input and a label. `cuts` are names of the net's blocks,
// each of which begins a segment when it is called: throws InvalidArgument where one names nothing,
// is not called once, or leaves a segment without work. `slices` tells which parameters are cut.
StepGraph trace_step(nn::Block& net, const LossFunction& loss,
                     const std::vector<TensorInfo>& fields, const FieldRoles& roles = {},
                     const std::vector<std::string>& cuts = {}, const SlicePlan& slices = {});

}  // namespace lockstep::train
