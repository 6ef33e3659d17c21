// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_graph.h"

#include <algorithm>
#include <map>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/unary.h"

namespace lockstep::train {
namespace {

// How often the largest output is the label; zero where the label is no class index.
Tensor accuracy_of(const Tensor& output, const Tensor& label) {
  if (!is_class_index(output, label)) return Tensor::zeros({});
  const Tensor right = equal(cast(argmax(output, -1), DType::int64), cast(label, DType::int64));
  return mean(cast(right, DType::float32));
}

// What a trace of the net knows: each parameter's graph input, and the updates that forward made.
struct TracedParameters {
  std::map<const void*, Tensor> inputs;
  std::map<const void*, Tensor> updates;
};

void check_parameters(const std::vector<nn::NamedParameter>& parameters) {
  for (const auto& [name, parameter] : parameters)
    if (parameter.dtype() != DType::float32)
      throw InvalidArgument(
          "train: parameter {} is {}; training keeps float32 and computes in less when asked "
          "(compute = bfloat16)",
          name, name_of(parameter.dtype()));
}

void add_inputs(StepGraph& step, Tracer& tracer, const std::vector<TensorInfo>& fields,
                std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < fields.size(); ++i)
    inputs.push_back(
        tracer.input(fields[i], i + 1 == fields.size() ? "label" : "data" + std::to_string(i)));
  inputs.push_back(tracer.input({{3}, DType::int64, {}}, "key"));
  for (const StepGraph::Parameter& parameter : step.parameters)
    inputs.push_back(tracer.input({parameter.shape, DType::float32, {}}, parameter.name));
}

}  // namespace

bool is_class_index(const Tensor& output, const Tensor& label) {
  const bool is_index = label.dtype() == DType::int64 || label.dtype() == DType::int32;
  return is_index && output.rank() == label.rank() + 1;
}

StepGraph trace_step(nn::Block& net, const LossFunction& loss,
                     const std::vector<TensorInfo>& fields) {
  if (fields.size() < 2)
    throw InvalidArgument("train: a batch needs data and a label, got {} fields", fields.size());
  check_parameters(net.parameters());
  net.complete_shapes({fields.begin(), fields.end() - 1});
  StepGraph step;
  step.fields = fields.size();
  const std::vector<nn::NamedParameter> parameters = net.parameters();
  for (const auto& [name, parameter] : parameters)
    step.parameters.push_back({name, parameter.shape(), parameter.options()});

  Tracer tracer(step.graph);
  std::vector<Tensor> inputs;
  add_inputs(step, tracer, fields, inputs);
  TracedParameters traced;
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    traced.inputs[parameters[i].parameter.identity()] = inputs[step.parameter_input(i)];

  const InterceptScope recording(&tracer);
  const autograd::ModeScope train_mode(true);
  const RandomScope draws(inputs[step.key_input()]);
  const nn::ParameterScope scope(
      [&](const nn::Parameter& p) { return traced.inputs.at(p.identity()); },
      [&](const nn::Parameter& p, const Tensor& value) { traced.updates[p.identity()] = value; });
  const std::vector<Tensor> outputs =
      net(std::vector<Tensor>(inputs.begin(), inputs.begin() + static_cast<int>(step.fields) - 1));
  const Tensor& label = inputs[step.fields - 1];
  step.graph.add_output(tracer.value(mean(loss(outputs.at(0), label))), "loss");
  step.graph.add_output(tracer.value(accuracy_of(outputs[0], label)), "accuracy");
  std::vector<std::size_t> wrt;
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const nn::Parameter& parameter = parameters[i].parameter;
    const auto update = traced.updates.find(parameter.identity());
    if (update != traced.updates.end()) {
      step.updated.push_back(i);
      step.graph.add_output(tracer.value(update->second), step.parameters[i].name);
    } else if (parameter.options().trainable) {
      step.trainable.push_back(i);
      wrt.push_back(step.parameter_input(i));
    }
  }
  step.graph = differentiate(step.graph, StepGraph::kLoss, wrt);
  return step;
}

}  // namespace lockstep::train
