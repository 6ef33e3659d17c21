// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_graph.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/slice_tracer.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/known_ops.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shard_ops.h"
#include "lockstep/ops/unary.h"
#include "lockstep/train/detail/cell_marks.h"
#include "lockstep/train/detail/lookups.h"
#include "lockstep/train/detail/no_gradient.h"

namespace lockstep::train {
namespace {

Tensor accuracy_of(const nn::Classes& classes, const Device& device) {
  if (!classes.predicted.defined()) return Tensor::zeros({}, DType::float32, device);
  const Tensor right = equal(classes.predicted, classes.expected);
  if (!classes.counted.defined()) return mean(cast(right, DType::float32));
  const Tensor counted = cast(classes.counted, DType::float32);
  return sum(cast(right, DType::float32) * counted) / maximum(sum(counted), 1.0);
}

// What a trace of the net knows: each parameter's graph input, and the updates that forward made.
// One that is cut into slices has an input for each of them, and a tensor that stands for all.
class TracedParameters {
 public:
  TracedParameters(const StepGraph& step, const std::vector<nn::NamedParameter>& parameters,
                   const std::vector<Tensor>& inputs, SliceTracer* slicing) {
    std::size_t place = 0;
    for (const auto& [name, parameter] : parameters) {
      const StepGraph::Parameter& first = step.parameters[place];
      std::vector<Tensor> own;
      const auto count = first.is_slice() ? static_cast<std::size_t>(step.slices) : 1;
      for (std::size_t k = 0; k < count; ++k) own.push_back(inputs[step.parameter_input(place++)]);
      for (const Tensor& input : own)
        if (parameter.wants_gradient()) autograd::attach_grad(input);
      const TensorInfo whole{first.whole, own[0].dtype(), own[0].device()};
      inputs_[parameter.identity()] =
          first.is_slice() ? slicing->cut(whole, first.cut, std::move(own)) : own[0];
    }
  }

  // An update is seen by what comes after it.
  Tensor get(const nn::Parameter& parameter) const {
    const Tensor update = updated(parameter);
    return update.defined() ? update : input(parameter);
  }

  void set(const nn::Parameter& parameter, const Tensor& given) {
    const Tensor value = plain(given);
    if (parameter.wants_gradient())
      throw InvalidArgument(
          "train: forward updates {}, which the optimiser updates too: make it not trainable",
          parameter.name());
    input(parameter);
    updates_[parameter.identity()] = value;
  }

  Tensor updated(const nn::Parameter& parameter) const {
    const auto found = updates_.find(parameter.identity());
    return found == updates_.end() ? Tensor() : found->second;
  }

 private:
  Tensor input(const nn::Parameter& parameter) const {
    const auto found = inputs_.find(parameter.identity());
    if (found == inputs_.end())
      throw InvalidArgument("train: forward uses {}, which is no parameter of the net",
                            parameter.name());
    return found->second;
  }

  std::map<const void*, Tensor> inputs_;
  std::map<const void*, Tensor> updates_;
};

// Of a parameter's input: zeros where the loss does not depend on it.
Tensor gradient_of(const Tensor& x) {
  const Tensor found = autograd::gradient(x);
  return found.defined() ? found : zeros(x.shape(), x.dtype(), x.device());
}

void add_places(StepGraph& step, const nn::NamedParameter& named, const SlicePlan& slices) {
  const auto& [name, parameter] = named;
  const Shape& whole = parameter.shape();
  const auto cut = slices.cuts.find(name);
  if (cut == slices.cuts.end())
    return step.parameters.push_back(
        {.name = name, .shape = whole, .options = parameter.options(), .whole = whole});
  for (std::int32_t k = 0; k < slices.slices; ++k)
    step.parameters.push_back({.name = name,
                               .shape = cut->second.shape_of(whole, k),
                               .options = parameter.options(),
                               .slice = k,
                               .cut = cut->second,
                               .whole = whole});
}

void check_parameters(const std::vector<nn::NamedParameter>& parameters) {
  for (const auto& [name, parameter] : parameters) {
    if (parameter.dtype() != DType::float32)
      throw InvalidArgument(
          "train: parameter {} is {}; training keeps float32 and computes in less when asked "
          "(compute = bfloat16)",
          name, name_of(parameter.dtype()));
    if (parameter.grad_mode() == autograd::GradMode::add)
      throw InvalidArgument(
          "train: parameter {} adds up gradients (GradMode::add); a step starts from none: use "
          "GradMode::write, and more shards to accumulate",
          name);
    if (parameter.options().sparse_grad && parameter.shape().rank() != 2)
      throw InvalidArgument(
          "train: parameter {} has sparse gradients and shape {}, expected a table [rows, width]",
          name, parameter.shape().str());
  }
}

void add_inputs(StepGraph& step, Tracer& tracer, const std::vector<TensorInfo>& fields,
                std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < fields.size(); ++i)
    inputs.push_back(tracer.input(fields[i], step.roles[i].name));
  const Device device = fields[0].device;
  inputs.push_back(tracer.input({{3}, DType::int64, device}, "key"));
  for (const StepGraph::Parameter& parameter : step.parameters)
    inputs.push_back(
        tracer.input({parameter.shape, DType::float32, device}, parameter.name, parameter.slice));
}

// What the net's parameters, which are there, can be asked with.
std::vector<TensorInfo> on_host(std::vector<TensorInfo> infos) {
  for (TensorInfo& info : infos) info.device = {};
  return infos;
}

// The parameter's name without its last part, if gamma or beta are parameters.
std::string layer_of(const Graph& graph, const Node& norm) {
  for (std::size_t i = 1; i < norm.inputs.size(); ++i) {
    const Node& source = graph.node(norm.inputs[i]);
    const std::size_t dot = source.name.rfind('.');
    if (source.is_input() && dot != std::string::npos) return source.name.substr(0, dot);
  }
  return "of the net";
}

// Outputs for the lookups that make the gradient of a table.
void add_lookups(StepGraph& step, std::size_t table, ValueId gradient) {
  const std::size_t place = step.tables[table];
  const std::string& name = step.parameters[place].name;
  const ValueId input = step.graph.inputs()[step.parameter_input(place)];
  for (const detail::Lookup& lookup : detail::find_lookups(step.graph, name, input, gradient)) {
    step.lookups.push_back(table);
    step.graph.add_output(lookup.ids, "ids:" + name);
    step.graph.add_output(lookup.rows, "rows:" + name);
  }
}

void go_back(const Tensor& loss, const LossFunction& function) {
  if (!autograd::requires_grad(loss))
    throw InvalidArgument(
        "train: {} does not depend on any parameter that is trained: it makes no use of the "
        "outputs, "
        "all of its history was detached or paused, or all parameters are frozen",
        function.name() == "loss" ? "the loss" : "the loss " + function.name());
  autograd::backward(loss);
}

}  // namespace

std::vector<BatchNormSize> batch_norm_sizes(const StepGraph& step) {
  std::vector<BatchNormSize> sizes;
  for (const Node& node : step.graph.nodes()) {
    if (node.op != &known_ops().batch_norm) continue;
    const Shape& x = step.graph.info(node.inputs[0]).shape;
    sizes.push_back(
        {layer_of(step.graph, node), x[0], x.numel() / std::max<std::int64_t>(1, x[1])});
  }
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.values < b.values; });
  return sizes;
}

StepGraph trace_step(nn::Block& net, const LossFunction& loss,
                     const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                     const std::vector<std::string>& cuts, const SlicePlan& slices) {
  StepGraph step;
  step.slices = slices.slices;
  step.fields = fields.size();
  step.roles = resolve_fields(roles, fields.size());
  check_parameters(trained_parameters(net, loss));
  complete_shapes(net, loss, on_host(inputs_of(step.roles, fields)),
                  on_host(labels_of(step.roles, fields)));
  const std::vector<nn::NamedParameter> parameters = trained_parameters(net, loss);
  for (const nn::NamedParameter& named : parameters) add_places(step, named, slices);

  Tracer tracer(step.graph);
  std::vector<Tensor> inputs;
  add_inputs(step, tracer, fields, inputs);
  std::optional<SliceTracer> slicing;
  if (step.slices > 1) slicing.emplace(step.slices);
  TracedParameters traced(step, parameters, inputs, slicing ? &*slicing : nullptr);

  // The tape records on top of the tracer, so that a step means what a loop by hand does, whatever
  // of autograd the net and the loss use; going back is traced like anything else.
  const InterceptScope tracing(&tracer);
  const autograd::RecordScope train_mode;
  std::optional<InterceptScope> by_slices;
  if (slicing) by_slices.emplace(&*slicing);
  const RandomScope draws(inputs[step.key_input()]);
  const nn::ParameterScope scope(
      [&](const nn::Parameter& p) { return traced.get(p); },
      [&](const nn::Parameter& p, const Tensor& value) { traced.set(p, value); });
  detail::CellMarks marks(net, cuts, step.graph);
  const Tensors given(inputs.begin(), inputs.begin() + static_cast<int>(step.fields));
  const Tensors outputs = net(inputs_of(step.roles, given));
  const Tensors labels = labels_of(step.roles, given);
  const Tensor mean_loss = plain(loss.mean(outputs, labels));
  const autograd::PauseScope pause(true);
  step.graph.add_output(tracer.value(cast(mean_loss, DType::float32)), "loss");
  const nn::Classes classes = loss.classes(outputs, labels);
  step.has_accuracy = classes.predicted.defined();
  step.graph.add_output(tracer.value(plain(accuracy_of(classes, mean_loss.device()))), "accuracy");
  std::map<std::string, nn::Parameter> by_name;
  for (const auto& [name, parameter] : parameters) by_name.emplace(name, parameter);
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    const nn::Parameter& parameter = by_name.at(step.parameters[i].name);
    const Tensor update = traced.updated(parameter);
    if (parameter.wants_gradient())
      (step.parameters[i].options.sparse_grad ? step.tables : step.trainable).push_back(i);
    if (!update.defined()) continue;
    if (step.parameters[i].is_slice())
      throw Unsupported("train: forward updates {}, which is split into slices",
                        step.parameters[i].name);
    step.updated.push_back(i);
    step.graph.add_output(tracer.value(update), step.parameters[i].name);
  }
  marks.check_forward();
  marks.go_back();
  step.forward_nodes = step.graph.nodes().size();
  go_back(mean_loss, loss);
  for (const std::size_t i : step.trainable) {
    const Tensor& input = inputs[step.parameter_input(i)];
    const char* prefix = autograd::gradient(input).defined() ? "grad:" : detail::kNoGradient;
    step.graph.add_output(tracer.value(gradient_of(input)), prefix + step.parameters[i].name,
                          step.parameters[i].slice);
  }
  for (std::size_t t = 0; t < step.tables.size(); ++t)
    add_lookups(step, t, tracer.value(gradient_of(inputs[step.parameter_input(step.tables[t])])));
  step.cuts = marks.cuts();
  step.cells = marks.cells();
  step.calls = marks.calls();
  const auto meets = [](const Node& node) { return node.op == &shard_mean_op(); };
  step.shards_meet = std::ranges::any_of(step.graph.nodes(), meets);
  return step;
}

}  // namespace lockstep::train
