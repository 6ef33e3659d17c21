// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/predict_graph.h"

#include <map>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/train/detail/cell_marks.h"

namespace lockstep::train::detail {
namespace {

Tensors add_inputs(PredictGraph& predict, Tracer& tracer, const Infos& fields) {
  Tensors inputs;
  for (const TensorInfo& info : fields)
    inputs.push_back(tracer.input(info, predict.roles[inputs.size()].name));
  for (const auto& [name, parameter] : predict.parameters)
    inputs.push_back(tracer.input({parameter.shape(), parameter.dtype(), {}}, name));
  return inputs;
}

void add_outputs(PredictGraph& predict, Tracer& tracer, const LossFunction& loss,
                 const Tensors& outputs, const Tensors& labels) {
  predict.graph.add_output(tracer.value(loss.mean(outputs, labels)), "loss");
  const auto [predicted, expected, counted] = loss.classes(outputs, labels);
  predict.has_classes = predicted.defined();
  predict.has_ignored = counted.defined();
  if (predict.has_classes) {
    predict.graph.add_output(tracer.value(predicted), "predicted");
    predict.graph.add_output(tracer.value(expected), "expected");
  }
  if (predict.has_ignored) predict.graph.add_output(tracer.value(counted), "counted");
  for (std::size_t i = 0; i < outputs.size(); ++i)
    predict.graph.add_output(tracer.value(outputs[i]), fmt::format("output{}", i));
}

}  // namespace

PredictGraph trace_predict(nn::Block& net, const LossFunction& loss, const FieldRoles& roles,
                           const Infos& fields, const std::vector<std::string>& cuts) {
  PredictGraph predict;
  predict.fields = fields.size();
  predict.roles = resolve_fields(roles, fields.size());
  complete_shapes(net, loss, inputs_of(predict.roles, fields), labels_of(predict.roles, fields));
  predict.parameters = trained_parameters(net, loss);
  Tracer tracer(predict.graph);
  const Tensors inputs = add_inputs(predict, tracer, fields);
  std::map<const void*, Tensor> traced;
  for (std::size_t i = 0; i < predict.parameters.size(); ++i) {
    const nn::Parameter& parameter = predict.parameters[i].parameter;
    traced[parameter.identity()] = inputs[predict.fields + i];
    if (parameter.wants_gradient()) autograd::attach_grad(inputs[predict.fields + i]);
  }

  const InterceptScope recording(&tracer);
  const autograd::ModeScope predict_mode(false);
  const RandomScope draws(random_key(0, 0, 0));
  const auto find = [&](const nn::Parameter& parameter) {
    const auto found = traced.find(parameter.identity());
    if (found == traced.end())
      throw InvalidArgument("evaluate: forward uses {}, which is no parameter of the net",
                            parameter.name());
    return found->second;
  };
  const nn::ParameterScope scope(find, [](const nn::Parameter&, const Tensor&) {});
  const CellMarks marks(net, cuts, predict.graph, CellMarks::Numbers::as_listed);
  const Tensors given(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(predict.fields));
  const Tensors outputs = net(inputs_of(predict.roles, given));
  add_outputs(predict, tracer, loss, outputs, labels_of(predict.roles, given));
  predict.cuts = cuts;
  predict.cells = marks.cells();
  return predict;
}

}  // namespace lockstep::train::detail
