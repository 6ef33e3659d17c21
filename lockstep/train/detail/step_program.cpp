// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/step_program.h"

#include <algorithm>
#include <atomic>

#include "lockstep/base/sha256.h"
#include "lockstep/graph/flops.h"
#include "lockstep/io/archive.h"
#include "lockstep/train/detail/element_numbers.h"

namespace lockstep::train::detail {
namespace {

using kvstore::FlatLayout;
using kvstore::FlatParameter;

Executable compile(const StepGraph& step, CompileOptions options) {
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    options.states.push_back(step.parameter_input(i));
  for (std::size_t i = 0; i < step.trainable.size(); ++i)
    options.deliveries.push_back(
        {step.gradient_output(i), step.parameter_input(step.trainable[i])});
  return Executable::compile(step.graph, options);
}

// In the order of the net's parameters.
std::vector<FlatParameter> by_number(std::vector<FlatParameter> parameters) {
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return parameters;
}

const nn::Parameter& named(const std::vector<nn::NamedParameter>& all, const std::string& name) {
  for (const nn::NamedParameter& candidate : all)
    if (candidate.name == name) return candidate.parameter;
  throw NotFound("train: neither the net nor the loss has a parameter {}", name);
}

std::span<std::byte> bytes_of(float* data, std::size_t count) {
  return std::as_writable_bytes(std::span(data, count));
}

}  // namespace

StepProgram::StepProgram(nn::Block& net, const LossFunction& loss,
                         const std::vector<TensorInfo>& fields, CompileOptions options,
                         const FieldRoles& roles)
    : loss_(loss), fields_(fields), step_(trace_step(net, loss, fields, roles)) {
  flops_per_sample_ =
      count_flops(step_.graph) / static_cast<double>(std::max<std::int64_t>(1, fields[0].shape[0]));
  executables_.push_back(compile(step_, std::move(options)));
  number_of_.resize(step_.trainable.size());
  const std::vector<std::size_t> order = first().delivery_order();
  for (std::size_t i = 0; i < order.size(); ++i) number_of_[order[i]] = i;
}

Executable& StepProgram::executable(std::size_t i) {
  while (executables_.size() <= i) executables_.push_back(first().clone());
  return executables_[i];
}

std::size_t StepProgram::bytes() const {
  std::size_t bytes = first().state_bytes();
  for (const Executable& executable : executables_) bytes += executable.arena_bytes();
  return bytes;
}

FlatLayout StepProgram::make_layout(bool find_unused) const {
  FlatLayout layout;
  for (const std::size_t delivery : first().delivery_order()) {
    const std::size_t parameter = step_.trainable[delivery];
    const nn::ParameterOptions& options = step_.parameters[parameter].options;
    layout.add({.number = parameter,
                .count = first().state_memory(input_of(parameter)).size() / sizeof(float),
                .rate_multiplier = options.rate_multiplier,
                .decay_multiplier = options.decay_multiplier});
  }
  if (!find_unused) return layout;
  // The gaps between parameters, and the padding inside them: what packing ones leaves zero.
  std::vector<float> used(layout.floats);
  for (const FlatParameter& parameter : layout.parameters)
    pack(parameter, Tensor::full(step_.parameters[parameter.number].shape, 1.0),
         used.data() + parameter.offset);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i] == 0.0F) layout.unused.push_back(i);
  return layout;
}

void StepProgram::use_weights(const kvstore::FlatState& state) noexcept {
  for (const FlatParameter& parameter : state.layout().parameters)
    executables_[0].set_state_memory(
        input_of(parameter.number),
        bytes_of(state.weights().data() + parameter.offset, parameter.count));
}

void StepProgram::set_statistics(const std::vector<Tensor>& values) {
  for (std::size_t u = 0; u < step_.updated.size(); ++u)
    executables_[0].set_state(input_of(step_.updated[u]), values[u]);
}

void StepProgram::refresh(ThreadTeam& team) {
  const std::size_t parts = first().refresh_parts();
  std::atomic<std::size_t> next = 0;
  if (parts > 0)
    team.run([&](int thread) {
      for (std::size_t i = next++; i < parts; i = next++)
        executables_[static_cast<std::size_t>(thread)].refresh(i);
    });
  executables_[0].set_fresh();
}

void StepProgram::store(nn::Block& net) const {
  const std::vector<nn::NamedParameter> all = trained_parameters(net, loss_);
  for (std::size_t i = 0; i < step_.parameters.size(); ++i)
    named(all, step_.parameters[i].name).set_data(first().state(input_of(i)).to(cpu()));
}

void StepProgram::load(const nn::Block& net) {
  const std::vector<nn::NamedParameter> all = trained_parameters(net, loss_);
  for (std::size_t i = 0; i < step_.parameters.size(); ++i)
    executables_[0].set_state(input_of(i), named(all, step_.parameters[i].name).data());
}

NamedTensors StepProgram::parameters() const {
  NamedTensors tensors;
  for (std::size_t i = 0; i < step_.parameters.size(); ++i)
    tensors.emplace_back(step_.parameters[i].name, first().state(input_of(i)).to(cpu()));
  return tensors;
}

std::string StepProgram::params_sha256() const { return io::tensors_sha256(parameters()); }

void StepProgram::pack(const FlatParameter& parameter, const Tensor& tensor, float* data) const {
  first().pack(input_of(parameter.number), tensor, bytes_of(data, parameter.count));
}

Tensor StepProgram::unpack(const FlatParameter& parameter, const float* data) const {
  return first().unpack(input_of(parameter.number),
                        std::as_bytes(std::span(data, parameter.count)));
}

// The tensor of that name, when it fits the parameter.
const Tensor& StepProgram::find(const NamedTensors& tensors, const std::string& name,
                                const FlatParameter& parameter) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& tensor) { return tensor.first == name; });
  if (found == tensors.end()) throw Corrupt("train: the checkpoint has no {}", name);
  const Shape& shape = step_.parameters[parameter.number].shape;
  if (!(found->second.shape() == shape) || found->second.dtype() != DType::float32)
    throw Corrupt("train: {} is {}, the parameter is {}", name, found->second.info().str(),
                  shape.str());
  return found->second;
}

void StepProgram::append_flat(const FlatLayout& layout, const std::string& prefix,
                              std::span<const float> flat, NamedTensors& tensors) const {
  for (const FlatParameter& parameter : by_number(layout.parameters))
    tensors.emplace_back(prefix + "/" + name_of(parameter),
                         unpack(parameter, flat.data() + parameter.offset));
}

void StepProgram::set_flat(const FlatLayout& layout, const std::string& prefix,
                           const NamedTensors& tensors, std::span<float> flat) const {
  for (const FlatParameter& parameter : by_number(layout.parameters))
    pack(parameter, find(tensors, prefix + "/" + name_of(parameter), parameter),
         flat.data() + parameter.offset);
}

// Of each parameter in turn its place, and each element's number where the element lies.
std::string StepProgram::layouts_sha256(const FlatLayout& layout) const {
  Sha256 sum;
  for (const FlatParameter& parameter : layout.parameters) {
    const std::uint64_t place = parameter.number;
    sum.update(std::as_bytes(std::span(&place, 1)));
    const Shape& shape = step_.parameters[parameter.number].shape;
    for (int part = 0; part < number_parts(shape.numel()); ++part) {
      std::vector<float> placed(parameter.count);
      pack(parameter, element_numbers(shape, part), placed.data());
      sum.update(std::as_bytes(std::span(placed)));
    }
  }
  return sum.hex();
}

}  // namespace lockstep::train::detail
