// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep::passes {

// Where a value is read.
struct Reader {
  std::int32_t node;  // -1: an output of the graph
  std::size_t slot;   // which of the node's inputs, or of the graph's outputs
};

// Who reads each value, in the order of the graph, the graph's outputs last.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  const std::vector<Reader>& of(ValueId value) const {
    return readers_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  }

 private:
  std::vector<std::vector<std::vector<Reader>>> readers_;
};

// Copies a graph node by node into a new one. A pass decides for each node: copy it, replace its
// outputs by other values, or leave it out.
class Rewriter {
 public:
  explicit Rewriter(const Graph& source);

  // The same node, reading what its inputs have become.
  void copy(std::int32_t id);
  // Another op in the node's place, with the first outputs standing for the node's own.
  void replace(std::int32_t id, const OpDef& op, const std::vector<ValueId>& new_inputs,
               const Attrs& attrs);
  // From now on `old_value` is `new_value` (of the new graph).
  void map(ValueId old_value, ValueId new_value);
  // What a value of the source has become.
  ValueId at(ValueId old_value) const;
  std::vector<ValueId> at(const std::vector<ValueId>& old_values) const;

  Graph& target() { return target_; }
  // Gives the target its outputs.
  Graph finish();

 private:
  const Graph& source_;
  Graph target_;
  std::vector<std::vector<ValueId>> map_;
};

}  // namespace lockstep::passes
