// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep {

// One output of one node.
struct ValueId {
  std::int32_t node = -1;
  std::int32_t output = 0;
  bool operator==(const ValueId&) const = default;
};

// What is no slice's part (ops/slice_ops.h).
inline constexpr std::int32_t kSameForSlices = -1;

// An op, or (with no op) an input or a constant.
struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;
  Infos outputs;
  std::string name;
  Tensor constant;
  std::int32_t slice = kSameForSlices;  // of an input: whose part it is

  bool is_constant() const { return op == nullptr && constant.defined(); }
  bool is_input() const { return op == nullptr && !constant.defined(); }
};

// What tracing records. Nodes are in topological order by construction: a node's inputs have lower
// ids. Passes do not edit a graph, they build a new one.
class Graph {
 public:
  // `slice` is the one that has the input, or makes the output, of a step with split layers.
  ValueId add_input(const TensorInfo& info, std::string name, std::int32_t slice = kSameForSlices);
  ValueId add_constant(Tensor value, std::string name = {});
  // Infers the outputs: throws what the op's inference throws. Returns the first output.
  ValueId add_node(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs = {},
                   std::string name = {});
  void add_output(ValueId value, std::string name = {}, std::int32_t slice = kSameForSlices);

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& node(ValueId value) const { return node(value.node); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  const std::vector<std::int32_t>& output_slices() const { return output_slices_; }
  const TensorInfo& info(ValueId value) const;
  Infos input_infos() const;

  // One line a node.
  std::string str() const;

 private:
  ValueId push(Node node);

  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<std::string> output_names_;
  std::vector<std::int32_t> output_slices_;
};

// How often each value is read (outputs of the graph count as reads), by node and output.
std::vector<std::vector<int>> count_uses(const Graph& graph);

}  // namespace lockstep
