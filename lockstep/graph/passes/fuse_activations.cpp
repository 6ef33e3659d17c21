// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/rewrite.h"
#include "lockstep/ops/known_ops.h"

namespace lockstep::passes {
namespace {

class ActivationFuser {
 public:
  explicit ActivationFuser(const Graph& graph) : graph_(graph), rewriter_(graph), readers_(graph) {}

  Graph run() {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph_.nodes().size()); ++id)
      if (!dropped_.contains(id)) visit(id);
    return rewriter_.finish();
  }

 private:
  bool is(std::int32_t id, const OpDef& op) const { return id >= 0 && graph_.node(id).op == &op; }

  // The one node that reads the value, if it is `op`; else -1.
  std::int32_t only_reader(ValueId value, const OpDef& op) const {
    const std::vector<Reader>& all = readers_.of(value);
    return all.size() == 1 && is(all[0].node, op) ? all[0].node : -1;
  }

  void visit(std::int32_t id) {
    if (is(id, ops_.conv) || is(id, ops_.dense)) return fuse_forward(id);
    if (is(id, ops_.dense_backward_weights)) return replace(id, graph_.node(id).attrs);
    if (is(id, ops_.dense_backward_data) && fuse_unflatten(id)) return;
    if (is(id, ops_.batch_norm) && fuse_norm(id)) return;
    if (masks_.contains(id)) return fuse_norm_backward(id);
    rewriter_.copy(id);
  }

  // Dense flattens by itself: it reads what the reshape before it reads.
  ValueId unflattened(std::int32_t id, ValueId input) const {
    const Node& producer = graph_.node(input);
    if (is(id, ops_.conv) || !is(input.node, ops_.reshape)) return input;
    if (!std::get<bool>(attr_field(graph_.node(id).attrs, "flatten"))) return input;
    const Shape& whole = graph_.info(producer.inputs[0]).shape;
    const Shape& rows = graph_.info(input).shape;
    const bool flattens = rows.rank() == 2 && whole.rank() > 2 && whole[0] == rows[0];
    return flattens ? producer.inputs[0] : input;
  }

  void replace(std::int32_t id, const Attrs& attrs) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = unflattened(id, inputs[0]);
    rewriter_.replace(id, *node.op, rewriter_.at(inputs), attrs);
  }

  void fuse_forward(std::int32_t id) {
    const Node& node = graph_.node(id);
    const std::int32_t relu = only_reader({id, 0}, ops_.relu);
    const bool plain = std::get<std::string>(attr_field(node.attrs, "activation")).empty();
    if (relu < 0 || !plain) return replace(id, node.attrs);
    replace(id, with_attr(*node.op, node.attrs, "activation", std::string("relu")));
    rewriter_.map({relu, 0}, rewriter_.at(ValueId{id, 0}));
    dropped_.insert(relu);
  }

  bool fuse_unflatten(std::int32_t id) {
    const Node& node = graph_.node(id);
    const std::int32_t reshape = only_reader({id, 0}, ops_.reshape);
    if (reshape < 0) return false;
    const Shape& rows = node.outputs[0].shape;
    const Shape& whole = graph_.node(reshape).outputs[0].shape;
    if (rows.rank() != 2 || whole.rank() <= 2 || whole[0] != rows[0]) return false;
    if (!std::get<bool>(attr_field(node.attrs, "flatten"))) return false;
    const Attrs attrs = with_attr(*node.op, node.attrs, "x_shape", whole.vector());
    rewriter_.replace(reshape, *node.op, rewriter_.at(node.inputs), attrs);
    dropped_.insert(reshape);
    return true;
  }

  // batch_norm -> relu, and relu_backward -> batch_norm_backward: the mask that the forward pass
  // leaves replaces the relu on the way back. Both directions or none.
  bool fuse_norm(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (std::get<bool>(attr_field(node.attrs, "relu"))) return false;
    const std::int32_t relu = only_reader({id, 0}, ops_.relu);
    if (relu < 0) return false;
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
    for (const Reader& reader : readers_.of({relu, 0})) {
      if (!is(reader.node, ops_.relu_backward) || reader.slot != 1) continue;
      const std::int32_t back = only_reader({reader.node, 0}, ops_.batch_norm_backward);
      if (back < 0 || !belongs(back, id, reader.node)) return false;
      pairs.emplace_back(reader.node, back);
    }
    rewriter_.replace(id, *node.op, rewriter_.at(node.inputs),
                      with_attr(*node.op, node.attrs, "relu", true));
    const ValueId y = rewriter_.at(ValueId{id, 0});
    rewriter_.map({relu, 0}, y);
    dropped_.insert(relu);
    for (const auto& [relu_backward, back] : pairs) {
      dropped_.insert(relu_backward);
      masks_[back] = {graph_.node(relu_backward).inputs[0], {y.node, 3}};
    }
    return true;
  }

  void fuse_norm_backward(std::int32_t id) {
    const Node& node = graph_.node(id);
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = masks_[id].grad;
    std::vector<ValueId> mapped = rewriter_.at(inputs);
    mapped.push_back(masks_[id].workspace);
    rewriter_.replace(id, *node.op, mapped, with_attr(*node.op, node.attrs, "relu", true));
  }

  // True when `back` is the gradient of batch norm `forward` with its dy from `relu_backward`.
  bool belongs(std::int32_t back, std::int32_t forward, std::int32_t relu_backward) const {
    const Node& node = graph_.node(back);
    const Node& norm = graph_.node(forward);
    return node.inputs.size() == 5 && node.inputs[0] == ValueId{relu_backward, 0} &&
           node.inputs[1] == norm.inputs[0] && node.inputs[2] == norm.inputs[1] &&
           node.inputs[3] == ValueId{forward, 1} && node.inputs[4] == ValueId{forward, 2};
  }

  const KnownOps& ops_ = known_ops();
  const Graph& graph_;
  Rewriter rewriter_;
  Readers readers_;
  std::unordered_set<std::int32_t> dropped_;
  // For a batch_norm_backward that takes over its relu: the gradient before the relu, and the mask.
  struct Mask {
    ValueId grad;       // of the source graph
    ValueId workspace;  // of the new graph
  };
  std::unordered_map<std::int32_t, Mask> masks_;
};

}  // namespace

Graph fuse_activations(const Graph& graph) { return ActivationFuser(graph).run(); }

}  // namespace lockstep::passes
