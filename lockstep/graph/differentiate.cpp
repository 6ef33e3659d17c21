// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/differentiate.h"

#include <unordered_map>

#include "lockstep/graph/trace.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/known_ops.h"

namespace lockstep {
namespace {

struct HashValue {
  std::size_t operator()(ValueId v) const {
    return static_cast<std::size_t>(v.node) * 8 + static_cast<std::size_t>(v.output);
  }
};

// Walks the nodes backwards, each op's own gradient function adding nodes at the end of the same
// graph. An op without one is walked through its decomposition, which is added first.
class Differentiator {
 public:
  explicit Differentiator(Graph& graph) : graph_(graph), tracer_(graph) {}

  void want(ValueId input) {
    grow();
    depends_[static_cast<std::size_t>(input.node)] = true;
  }

  // What depends on the wanted inputs, from node `from` on.
  void propagate(std::int32_t from) {
    grow();
    for (std::size_t id = static_cast<std::size_t>(from); id < depends_.size(); ++id)
      if (!is_cut(graph_.nodes()[id]))
        for (ValueId input : graph_.nodes()[id].inputs)
          if (depends(input.node)) depends_[id] = true;
  }

  void seed(ValueId head) {
    const InterceptScope scope(&tracer_);
    const TensorInfo info = graph_.info(head);
    accumulate(head, full(info.shape, 1.0, info.dtype, info.device));
  }

  void seed(ValueId head, ValueId gradient) {
    const InterceptScope scope(&tracer_);
    accumulate(head, tracer_.tensor(gradient));
  }

  void run(std::int32_t begin, std::int32_t end) {
    const InterceptScope scope(&tracer_);
    for (std::int32_t id = end - 1; id >= begin; --id)
      if (graph_.node(id).op != nullptr && depends(id)) step(id);
  }

  ValueId gradient(ValueId value) {
    const InterceptScope scope(&tracer_);
    const auto found = gradients_.find(value);
    if (found != gradients_.end()) return tracer_.value(found->second);
    const TensorInfo info = graph_.info(value);
    return tracer_.value(full(info.shape, 0.0, info.dtype, info.device));
  }

 private:
  bool depends(std::int32_t id) const {
    return static_cast<std::size_t>(id) < depends_.size() && depends_[static_cast<std::size_t>(id)];
  }

  void grow() { depends_.resize(graph_.nodes().size(), false); }

  static bool is_cut(const Node& node) {
    return node.op == &known_ops().stop_gradient && !is_function(node);
  }

  static bool is_function(const Node& node) {
    return node.op == &known_ops().stop_gradient &&
           std::get<bool>(attr_field(node.attrs, "function"));
  }

  void accumulate(ValueId value, const Tensor& gradient) {
    const auto [place, fresh] = gradients_.try_emplace(value, gradient);
    if (!fresh) place->second = add(place->second, gradient);
  }

  void step(std::int32_t id) {
    // Copied: the gradient function adds nodes, and the vector of nodes moves.
    const Node node = graph_.node(id);
    std::vector<Tensor> inputs, outputs, grads;
    bool any = false;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId value{id, static_cast<std::int32_t>(i)};
      outputs.push_back(tracer_.tensor(value));
      const auto found = gradients_.find(value);
      grads.push_back(found == gradients_.end() ? Tensor() : found->second);
      any = any || grads.back().defined();
    }
    if (!any) return;
    if (is_function(node))
      throw InvalidArgument(
          "differentiate: {} comes from an autograd::Function, whose gradient only the tape knows: "
          "call autograd::grad inside of what is traced",
          graph_.info({id, 0}).str());
    if (!node.op->differentiable()) return;
    for (ValueId input : node.inputs) inputs.push_back(tracer_.tensor(input));
    if (node.op->gradient == nullptr) {
      through_decomposition(node, inputs, grads);
      return;
    }
    send(node, node.op->gradient({node.attrs, inputs, outputs, grads, needs(node)}));
  }

  std::span<const bool> needs(const Node& node) {
    needs_ = std::make_unique<bool[]>(node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      needs_[i] = depends(node.inputs[i].node) && is_floating(graph_.info(node.inputs[i]).dtype);
    return {needs_.get(), node.inputs.size()};
  }

  void send(const Node& node, const std::vector<Tensor>& gradients) {
    check(gradients.size() == node.inputs.size(), "a gradient function returned a wrong count");
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined() && depends(node.inputs[i].node))
        accumulate(node.inputs[i], gradients[i]);
  }

  void through_decomposition(const Node& node, const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& grads) {
    const auto begin = static_cast<std::int32_t>(graph_.nodes().size());
    const std::vector<Tensor> outputs = node.op->decompose(inputs, node.attrs);
    const auto end = static_cast<std::int32_t>(graph_.nodes().size());
    propagate(begin);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].defined() && grads[i].defined())
        accumulate(tracer_.value(outputs[i]), grads[i]);
    run(begin, end);
  }

  Graph& graph_;
  Tracer tracer_;
  std::vector<bool> depends_;
  std::unique_ptr<bool[]> needs_;
  std::unordered_map<ValueId, Tensor, HashValue> gradients_;
};

// Throws InvalidArgument when one does not exist or has no gradient.
void check_head(const Graph& graph, std::size_t head) {
  if (head >= graph.outputs().size())
    throw InvalidArgument("differentiate: output {} of {} does not exist", head,
                          graph.outputs().size());
  const TensorInfo& differentiated = graph.info(graph.outputs()[head]);
  if (!is_floating(differentiated.dtype))
    throw InvalidArgument("differentiate: output {} is {}, expected a floating dtype", head,
                          differentiated.str());
}

void want_inputs(const Graph& graph, const std::vector<std::size_t>& wrt,
                 Differentiator& differentiator) {
  for (std::size_t input : wrt) {
    if (input >= graph.inputs().size())
      throw InvalidArgument("differentiate: input {} of {} does not exist", input,
                            graph.inputs().size());
    const TensorInfo& info = graph.info(graph.inputs()[input]);
    if (!is_floating(info.dtype))
      throw InvalidArgument("differentiate: input {} is {}, expected a floating dtype", input,
                            info.str());
    differentiator.want(graph.inputs()[input]);
  }
  differentiator.propagate(0);
}

void add_gradients(const Graph& graph, const std::vector<std::size_t>& wrt,
                   Differentiator& differentiator, Graph& result) {
  differentiator.run(0, static_cast<std::int32_t>(graph.nodes().size()));
  for (std::size_t input : wrt)
    result.add_output(differentiator.gradient(graph.inputs()[input]),
                      "grad:" + graph.node(graph.inputs()[input]).name);
}

}  // namespace

Graph differentiate(const Graph& graph, std::size_t head, const std::vector<std::size_t>& wrt) {
  check_head(graph, head);
  Graph result = graph;
  Differentiator differentiator(result);
  want_inputs(graph, wrt, differentiator);
  differentiator.seed(graph.outputs()[head]);
  add_gradients(graph, wrt, differentiator, result);
  return result;
}

Graph differentiate(const Graph& graph, const std::vector<std::size_t>& heads,
                    const std::vector<std::size_t>& wrt) {
  Graph result = graph;
  std::vector<ValueId> gradients;
  for (std::size_t head : heads) {
    check_head(graph, head);
    gradients.push_back(
        result.add_input(graph.info(graph.outputs()[head]), fmt::format("grad:output{}", head)));
  }
  Differentiator differentiator(result);
  want_inputs(graph, wrt, differentiator);
  for (std::size_t i = 0; i < heads.size(); ++i)
    differentiator.seed(graph.outputs()[heads[i]], gradients[i]);
  add_gradients(graph, wrt, differentiator, result);
  return result;
}

}  // namespace lockstep
