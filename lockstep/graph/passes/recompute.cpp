// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/catalogue.h"

namespace lockstep::passes {
namespace {

bool is(const Node& node, std::string_view op) { return node.op != nullptr && node.op->name == op; }

// Backward ops are called x_backward, or x_backward_data and the like.
bool is_backward(const Node& node) {
  return node.op != nullptr && node.op->name.find("_backward") != std::string_view::npos;
}

// A normalised activation is cheap to make again from its input, which the backward pass keeps
// anyway. So the forward pass lets it go after its last forward reader, and the first backward
// reader has it computed again (Chen, Xu, Zhang, Guestrin: "Training deep nets with sublinear
// memory cost", 2016, applied to this op alone).
class Recomputer {
 public:
  explicit Recomputer(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph run() {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph_.nodes().size()); ++id) {
      const Node& node = graph_.node(id);
      if (!is_backward(node)) {
        rewriter_.copy(id);
        continue;
      }
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(value_for_backward(input));
      rewriter_.replace(id, *node.op, inputs, node.attrs);
    }
    return rewriter_.finish();
  }

 private:
  ValueId value_for_backward(ValueId value) {
    const Node& producer = graph_.node(value);
    if (!is(producer, "batch_norm") || value.output != 0) return rewriter_.at(value);
    const auto [place, fresh] = again_.try_emplace(value.node);
    if (fresh) place->second = compute_again(value.node, producer);
    return place->second;
  }

  ValueId compute_again(std::int32_t id, const Node& norm) {
    std::vector<ValueId> inputs = rewriter_.at(norm.inputs);
    inputs.push_back(rewriter_.at(ValueId{id, 1}));
    inputs.push_back(rewriter_.at(ValueId{id, 2}));
    const OpDef& inference = get_op("batch_norm_inference");
    const AttrField epsilon{"epsilon", attr_field(norm.attrs, "epsilon")};
    const ValueId y = rewriter_.target().add_node(
        inference, inputs, inference.schema.make(inference.name, {&epsilon, 1}));
    if (!std::get<bool>(attr_field(norm.attrs, "relu"))) return y;
    return rewriter_.target().add_node(get_op("relu"), {y});
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::unordered_map<std::int32_t, ValueId> again_;
};

}  // namespace

Graph recompute(const Graph& graph) { return Recomputer(graph).run(); }

}  // namespace lockstep::passes
