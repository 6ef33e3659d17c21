// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/trace.h"

#include "lockstep/autograd/autograd.h"
#include "lockstep/autograd/recording.h"
#include "lockstep/ops/known_ops.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep {

Tensor Tracer::input(const TensorInfo& info, std::string name, std::int32_t slice) {
  const Tensor result = tensor(graph_.add_input(info, std::move(name), slice));
  result.trace_value()->history = History::whole;
  return result;
}

Tensor Tracer::tensor(ValueId value) {
  const History history = autograd::is_paused() ? History::none : History::whole;
  return Tensor::symbolic(graph_.info(value), std::make_shared<TraceValue>(TraceValue{
                                                  recording_, value.node, value.output, history}));
}

// While paused nothing has a history anyway.
ValueId Tracer::without_history(ValueId value) {
  if (autograd::is_paused() || !is_floating(graph_.info(value).dtype)) return value;
  const auto [place, fresh] = cuts_.try_emplace({value.node, value.output});
  if (fresh)
    place->second =
        graph_.add_node(known_ops().stop_gradient, {value}, Attrs::of(StopGradientAttrs{}));
  return place->second;
}

ValueId Tracer::value(const Tensor& tensor) {
  if (tensor.is_symbolic()) {
    const TraceValue& traced = *tensor.trace_value();
    if (traced.recording != recording_)
      throw InvalidArgument("trace: a tensor of another recording was used ({})",
                            tensor.info().str());
    const ValueId id{traced.node, traced.output};
    const bool is_input = graph_.node(id).is_input();
    const bool cut =
        traced.history == History::none || (traced.history == History::leaf && !is_input);
    return cut ? without_history(id) : id;
  }
  const auto known = constants_.find(tensor.identity());
  if (known != constants_.end()) return known->second;
  kept_.push_back(tensor);
  const ValueId id = graph_.add_constant(tensor.copy());
  constants_.emplace(tensor.identity(), id);
  return id;
}

std::vector<Tensor> Tracer::intercept(const OpDef& op, std::span<const Tensor> inputs,
                                      const Attrs& attrs) {
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) ids.push_back(value(input));
  const ValueId first = graph_.add_node(op, std::move(ids), attrs);
  std::vector<Tensor> outputs;
  const auto count = static_cast<std::int32_t>(graph_.node(first).outputs.size());
  for (std::int32_t i = 0; i < count; ++i) outputs.push_back(tensor({first.node, i}));
  return outputs;
}

Graph trace(const TensorFunction& function, const Infos& inputs,
            const std::vector<std::string>& names) {
  Graph graph;
  Tracer tracer(graph);
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    arguments.push_back(
        tracer.input(inputs[i], i < names.size() ? names[i] : fmt::format("input{}", i)));
  const InterceptScope scope(&tracer);
  // A pause around the trace is none inside it.
  const autograd::RecordingFlag unpaused(autograd::is_recording() ? autograd::Recording::on
                                                                  : autograd::Recording::off);
  for (const Tensor& output : function(arguments)) {
    if (!output.defined())
      throw InvalidArgument("trace: the function returned an undefined tensor");
    graph.add_output(tracer.value(output));
  }
  return graph;
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size())
    throw InvalidArgument("graph: takes {} inputs, got {}", graph.inputs().size(), inputs.size());
  std::vector<std::vector<int>> uses = count_uses(graph);
  std::vector<std::vector<Tensor>> values(graph.nodes().size());
  const auto slot = [&](ValueId v) -> Tensor& {
    return values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)];
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) throw InvalidArgument("graph: input {} is undefined", i);
    if (!(inputs[i].info() == graph.info(graph.inputs()[i])))
      throw InvalidArgument("graph: input {} is {}, expected {}", i, inputs[i].info().str(),
                            graph.info(graph.inputs()[i]).str());
    values[static_cast<std::size_t>(graph.inputs()[i].node)] = {inputs[i]};
  }
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (node.is_constant()) values[id] = {node.constant};
    if (node.op == nullptr) continue;
    std::vector<Tensor> arguments;
    for (ValueId input : node.inputs) arguments.push_back(slot(input));
    values[id] = apply(*node.op, arguments, node.attrs);
    for (ValueId input : node.inputs) {
      int& left =
          uses[static_cast<std::size_t>(input.node)][static_cast<std::size_t>(input.output)];
      if (--left == 0) slot(input) = {};
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId output : graph.outputs()) outputs.push_back(slot(output));
  return outputs;
}

}  // namespace lockstep
