// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>
#include <unordered_set>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/known_ops.h"

namespace lockstep::passes {
namespace {

// Backward ops are called x_backward, or x_backward_data and the like.
bool is_backward(const Node& node) {
  return node.op != nullptr && node.op->name.find("_backward") != std::string_view::npos;
}

// The output of a norm is cheap to make again from its input, which the backward pass keeps
// anyway. So the forward pass lets it go after its last forward reader, and the first backward
// reader has it computed again (Chen, Xu, Zhang, Guestrin: "Training deep nets with sublinear
// memory cost", 2016, applied to this op alone).
class Recomputer {
 public:
  explicit Recomputer(const Graph& graph) : graph_(graph), rewriter_(graph) {
    for (const Node& node : graph.nodes())
      if (is_backward(node))
        for (ValueId input : node.inputs) kept_.insert(input.node);
  }

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
    const bool batch = producer.op == &ops_.batch_norm && keeps_statistics(value.node);
    const bool layer = producer.op == &ops_.layer_norm;
    if (value.output != 0 || !(batch || layer || is_copied_view(value))) return rewriter_.at(value);
    const auto [place, fresh] = again_.try_emplace(value.node);
    if (fresh)
      place->second = batch ? batch_norm_again(value.node, producer) : same_again(producer);
    return place->second;
  }

  // Statistics that are rounded to 16 bits make another output than those it was made of.
  bool keeps_statistics(std::int32_t norm) const {
    return item_size(graph_.info(ValueId{norm, 1}).dtype) >= sizeof(float);
  }

  // A reshape that may have been a copy, of a value that the backward pass keeps in any case.
  bool is_copied_view(ValueId value) const {
    const Node& producer = graph_.node(value);
    if (producer.op != &ops_.reshape || graph_.node(producer.inputs[0]).op != &ops_.transpose)
      return false;
    return kept_.contains(graph_.node(producer.inputs[0]).inputs[0].node);
  }

  ValueId same_again(const Node& node) {
    return rewriter_.target().add_node(*node.op, rewriter_.at(node.inputs), node.attrs);
  }

  ValueId batch_norm_again(std::int32_t id, const Node& norm) {
    std::vector<ValueId> inputs = rewriter_.at(norm.inputs);
    inputs.push_back(rewriter_.at(ValueId{id, 1}));
    inputs.push_back(rewriter_.at(ValueId{id, 2}));
    const OpDef& inference = ops_.batch_norm_inference;
    const AttrField epsilon{"epsilon", attr_field(norm.attrs, "epsilon")};
    const ValueId y = rewriter_.target().add_node(
        inference, inputs, inference.schema.make(inference.name, {&epsilon, 1}));
    if (!std::get<bool>(attr_field(norm.attrs, "relu"))) return y;
    return rewriter_.target().add_node(ops_.relu, {y});
  }

  const KnownOps& ops_ = known_ops();
  const Graph& graph_;
  Rewriter rewriter_;
  std::unordered_map<std::int32_t, ValueId> again_;
  std::unordered_set<std::int32_t> kept_;  // nodes that a backward op reads
};

}  // namespace

Graph recompute(const Graph& graph) { return Recomputer(graph).run(); }

}  // namespace lockstep::passes
