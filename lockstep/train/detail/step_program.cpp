// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/step_program.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <unordered_map>

#include "lockstep/base/sha256.h"
#include "lockstep/graph/flops.h"
#include "lockstep/train/detail/element_numbers.h"
#include "lockstep/train/detail/no_gradient.h"
#include "lockstep/train/detail/slice_names.h"

namespace lockstep::train::detail {
namespace {

using kvstore::FlatLayout;
using kvstore::FlatParameter;

constexpr const char* kAdvice =
    "; what a fit trains stays the same to its end: let it end (FitContext::request_stop), then "
    "change it and fit again";

std::string text_of(const std::vector<TensorInfo>& fields) {
  std::string text;
  for (const TensorInfo& info : fields) text += (text.empty() ? "" : ", ") + info.str();
  return text;
}

// The least that only one of two ascending lists has.
std::size_t first_difference(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  std::vector<std::size_t> alone;
  std::ranges::set_symmetric_difference(a, b, std::back_inserter(alone));
  return alone.front();
}

// One set of weights serves all shapes.
void check_alike(const StepGraph& step, const StepGraph& first,
                 const std::vector<TensorInfo>& fields) {
  const auto same = [](const StepGraph::Parameter& a, const StepGraph::Parameter& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  const bool alike = step.fields == first.fields && step.trainable == first.trainable &&
                     step.tables == first.tables && step.has_accuracy == first.has_accuracy &&
                     std::equal(step.parameters.begin(), step.parameters.end(),
                                first.parameters.begin(), first.parameters.end(), same);
  if (!alike)
    throw InvalidArgument(
        "train: on a batch of {} the net has other parameters to train than on its first one",
        text_of(fields));
  if (step.updated == first.updated) return;
  const std::size_t place = first_difference(step.updated, first.updated);
  const bool is_new = std::ranges::count(step.updated, place) > 0;
  throw InvalidArgument(
      "train: on a batch of {} the net {} {}, on its first one it {}: what a fit updates stays the "
      "same to its end, and so do the modes of blocks that have running statistics",
      text_of(fields), is_new ? "updates" : "leaves", first.parameters[place].name,
      is_new ? "left it" : "updated it");
}

// In the order of the net's parameters.
std::vector<FlatParameter> by_number(std::vector<FlatParameter> parameters) {
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return parameters;
}

std::span<std::byte> bytes_of(float* data, std::size_t count) {
  return std::as_writable_bytes(std::span(data, count));
}

}  // namespace

StepProgram::StepProgram(nn::BlockPtr net, LossFunction loss, const std::vector<TensorInfo>& fields,
                         CompileOptions options, FieldRoles roles, std::vector<std::string> cuts,
                         std::optional<SegmentRange> own, SlicePlan slices,
                         std::optional<ShardRange> own_slices)
    : net_(std::move(net)),
      loss_(std::move(loss)),
      roles_(std::move(roles)),
      cuts_(std::move(cuts)),
      slices_(std::move(slices)),
      options_(std::move(options)),
      step_(trace_step(*net_, loss_, fields, roles_, cuts_, slices_)),
      plans_(options_.plans) {
  flops_per_sample_ =
      count_flops(step_.graph) / static_cast<double>(std::max<std::int64_t>(1, fields[0].shape[0]));
  batch_norm_sizes_ = train::batch_norm_sizes(step_);
  trained_ = parameters_of(*net_);
  look_at_structure();
  first_structure_ = structure_;
  plans_.add({fields, structure_, {}, step_.lookups});
  plan().executables.push_back(StepExecutable::compile(step_, options_, own, own_slices));
  for (std::size_t i = 0; i < step_.trainable.size(); ++i)
    has_gradient_.push_back(
        !step_.graph.output_names()[step_.gradient_output(i)].starts_with(kNoGradient));
  step_.graph = {};
  step_.cells = {};
  number_of_.resize(step_.trainable.size());
  const std::vector<std::size_t> order = delivery_order();
  for (std::size_t i = 0; i < order.size(); ++i) number_of_[order[i]] = i;
}

// Norms are added in this order: with slices it is one that all workers know, whichever they have.
std::vector<std::size_t> StepProgram::delivery_order() const {
  std::vector<std::size_t> order = first().delivery_order();
  if (step_.slices > 1) std::ranges::sort(order, std::greater<>());
  return order;
}

void StepProgram::look_at_structure() {
  structure_.clear();
  structure_.add(*net_);
  if (loss_.block() != nullptr) structure_.add(*loss_.block());
}

void StepProgram::select(const std::vector<TensorInfo>& fields) {
  check_multipliers();
  look_at_structure();
  const auto is_it = [&](const Plan& known) {
    return known.fields == fields && known.structure == structure_;
  };
  if (plans_.find(is_it) == nullptr) plans_.add(make_plan(fields));
  make_executables(uses_);
}

void StepProgram::check_multipliers() const {
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const nn::ParameterOptions &now = trained_[i].options(), &first = step_.parameters[i].options;
    if (now.rate_multiplier != first.rate_multiplier ||
        now.decay_multiplier != first.decay_multiplier)
      throw InvalidArgument("train: {} got other multipliers while a fit was running{}",
                            step_.parameters[i].name, kAdvice);
  }
}

// What is trained is laid out when a run begins, and checkpoints are of it.
void StepProgram::check_trains_the_same() const {
  if (structure_.parameters != first_structure_.parameters)
    throw InvalidArgument("train: the net got other parameters while a fit was running{}", kAdvice);
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const bool was_trained = std::ranges::binary_search(step_.trainable, i) ||
                             std::ranges::binary_search(step_.tables, i);
    if (trained_[i].wants_gradient() == was_trained) continue;
    throw InvalidArgument("train: {} was {} while a fit was running{}", step_.parameters[i].name,
                          was_trained ? "frozen" : "unfrozen", kAdvice);
  }
}

StepProgram::Plan StepProgram::make_plan(const std::vector<TensorInfo>& fields) {
  check_trains_the_same();
  const StepGraph step = trace_step(*net_, loss_, fields, roles_, cuts_, slices_);
  check_alike(step, step_, fields);
  Plan made{fields, structure_, {}, step.lookups};
  made.executables.push_back(StepExecutable::compile(step, options_, first()));
  return made;
}

void StepProgram::make_executables(std::size_t uses, std::size_t arenas) {
  uses_ = std::max(uses_, uses);
  arenas_ = std::max(arenas_, arenas);
  while (plan().executables.size() < uses_)
    plan().executables.push_back(new_clone(plan().executables.size()));
}

// Computes where those with its number do in other shapes.
StepExecutable StepProgram::new_clone(std::size_t i) const {
  if (arenas_ > 0 && i >= arenas_) return first().clone(plan().executables[i % arenas_]);
  for (const Plan& other : plans_)
    if (other.executables.size() > i) return first().clone(other.executables[i]);
  return first().clone();
}

std::size_t StepProgram::bytes() const {
  std::size_t bytes = first().state_bytes();
  for (std::size_t i = 0; i < plan().executables.size(); ++i) {
    const StepExecutable& executable = plan().executables[i];
    const bool has_own = arenas_ == 0 || i < arenas_;
    bytes += executable.values_bytes() + (has_own ? executable.arena_bytes() : 0);
  }
  return bytes;
}

// What the loss does not depend on stays as it is: it has zeros for a gradient, and does not decay.
FlatLayout StepProgram::make_layout(bool find_unused) const {
  FlatLayout layout;
  for (const std::size_t delivery : delivery_order()) {
    const std::size_t parameter = step_.trainable[delivery];
    const StepGraph::Parameter& own = step_.parameters[parameter];
    const nn::ParameterOptions& options = own.options;
    layout.add({.number = parameter,
                .count = first().state_memory(input_of(parameter)).size() / sizeof(float),
                .rate_multiplier = options.rate_multiplier,
                .decay_multiplier = has_gradient_[delivery] ? options.decay_multiplier : 0.0,
                .whole = own.is_slice()
                             ? std::optional(parameter - static_cast<std::size_t>(own.slice))
                             : std::nullopt});
  }
  for (const std::size_t parameter : step_.tables) {
    if (!has(parameter)) continue;
    const Shape& shape = step_.parameters[parameter].shape;
    const nn::ParameterOptions& options = step_.parameters[parameter].options;
    layout.tables.push_back({.number = parameter,
                             .rows = static_cast<std::size_t>(shape[0]),
                             .width = static_cast<std::size_t>(shape[1]),
                             .padding_row = options.padding_row,
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
    plan().executables[0].set_state_memory(
        input_of(parameter.number),
        bytes_of(state.weights().data() + parameter.offset, parameter.count));
  for (std::size_t t = 0; t < state.tables().size(); ++t)
    plan().executables[0].set_state_memory(input_of(state.tables().layout(t).number),
                                           std::as_writable_bytes(state.tables().weights(t)));
}

void StepProgram::use_memory(const FlatParameter& parameter, float* memory) {
  plan().executables[0].set_state_memory(input_of(parameter.number),
                                         bytes_of(memory, parameter.count));
}

void StepProgram::set_statistics(const std::vector<Tensor>& values) {
  for (std::size_t u = 0; u < step_.updated.size(); ++u)
    if (has(step_.updated[u]))
      plan().executables[0].set_state(input_of(step_.updated[u]), values[u]);
}

std::vector<Tensor> StepProgram::statistics() const {
  std::vector<Tensor> values;
  for (const std::size_t place : step_.updated)
    if (has(place)) values.push_back(first().state(input_of(place)).to(cpu()));
  return values;
}

void StepProgram::refresh(ThreadTeam& team) {
  if (first().is_fresh()) return;
  const std::size_t parts = first().refresh_parts();
  std::atomic<std::size_t> next = 0;
  if (parts > 0)
    team.run([&](int thread) {
      for (std::size_t i = next++; i < parts; i = next++)
        plan().executables[static_cast<std::size_t>(thread)].refresh(i);
    });
  plan().executables[0].set_fresh();
}

// Those of the step, in its order.
std::vector<nn::Parameter> StepProgram::parameters_of(const nn::Block& net) const {
  std::unordered_map<std::string, nn::Parameter> by_name;
  for (const auto& [name, parameter] : trained_parameters(net, loss_))
    by_name.emplace(name, parameter);
  std::vector<nn::Parameter> found;
  for (const StepGraph::Parameter& own : step_.parameters) {
    const auto place = by_name.find(own.name);
    if (place == by_name.end())
      throw NotFound("train: neither the net nor the loss has a parameter {}", own.name);
    found.push_back(place->second);
  }
  return found;
}

void StepProgram::store(nn::Block& net) const {
  const std::vector<nn::Parameter> places = parameters_of(net);
  for (std::size_t i = 0; i < step_.parameters.size(); ++i)
    if (has(i) && !step_.parameters[i].is_slice())
      places[i].set_data(first().state(input_of(i)).to(cpu()));
  if (step_.slices == 1) return;
  for (auto& [name, tensor] : join_slices(step_.parameters, parameters()))
    for (std::size_t i = 0; i < step_.parameters.size(); ++i)
      if (step_.parameters[i].name == name && step_.parameters[i].slice == 0)
        places[i].set_data(tensor);
}

void StepProgram::load(const nn::Block& net) {
  const std::vector<nn::Parameter> places = parameters_of(net);
  for (std::size_t i = 0; i < step_.parameters.size(); ++i)
    if (has(i))
      plan().executables[0].set_state(input_of(i), slice_of(step_.parameters[i], places[i].data()));
}

void StepProgram::load(const nn::Block& net, kvstore::FlatState& state) {
  const std::vector<nn::Parameter> places = parameters_of(net);
  std::vector<bool> is_shared(places.size(), false);
  for (const FlatParameter& parameter : state.layout().parameters) {
    is_shared[parameter.number] = true;
    std::vector<float> packed(parameter.count);
    pack(parameter, places[parameter.number].data(), packed.data());
    state.owned().set_weights(parameter.offset, packed);
  }
  for (std::size_t i = 0; i < places.size(); ++i)
    if (!is_shared[i]) plan().executables[0].set_state(input_of(i), places[i].data());
}

NamedTensors StepProgram::parameters() const {
  NamedTensors tensors;
  for (std::size_t i = 0; i < step_.parameters.size(); ++i)
    if (has(i)) tensors.emplace_back(slice_name(step_.parameters[i]), parameter(i));
  return tensors;
}

Tensor StepProgram::parameter(std::size_t number) const {
  return first().state(input_of(number)).to(cpu());
}

void StepProgram::pack(const FlatParameter& parameter, const Tensor& tensor, float* data) const {
  first().pack(input_of(parameter.number), tensor, bytes_of(data, parameter.count));
}

Tensor StepProgram::unpack(const FlatParameter& parameter, const float* data) const {
  return first().unpack(input_of(parameter.number),
                        std::as_bytes(std::span(data, parameter.count)));
}

// Of the shape of the parameter with that number.
const Tensor& StepProgram::find(const TensorsByName& tensors, const std::string& name,
                                std::size_t parameter) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Corrupt("train: the checkpoint has no {}", name);
  const Tensor& tensor = found->second;
  const Shape& shape = step_.parameters[parameter].whole;
  if (!(tensor.shape() == shape) || tensor.dtype() != DType::float32)
    throw Corrupt("train: {} is {}, the parameter is {}", name, tensor.info().str(), shape.str());
  return tensor;
}

void StepProgram::append_flat(const FlatLayout& layout, const std::string& prefix,
                              std::span<const float> flat, NamedTensors& tensors) const {
  for (const FlatParameter& parameter : by_number(layout.parameters))
    tensors.emplace_back(prefix + "/" + slice_name(step_.parameters[parameter.number]),
                         unpack(parameter, flat.data() + parameter.offset));
}

void StepProgram::set_flat(const FlatLayout& layout, const std::string& prefix,
                           const NamedTensors& tensors, std::span<float> flat) const {
  const TensorsByName by_name(tensors.begin(), tensors.end());
  for (const FlatParameter& parameter : by_number(layout.parameters))
    pack(parameter,
         slice_of(step_.parameters[parameter.number],
                  find(by_name, prefix + "/" + name_of(parameter), parameter.number)),
         flat.data() + parameter.offset);
}

void StepProgram::append_tables(const FlatLayout& layout, const std::string& prefix,
                                const TableNumbers& numbers, NamedTensors& tensors) const {
  for (std::size_t t = 0; t < layout.tables.size(); ++t) {
    const kvstore::RowTable& table = layout.tables[t];
    const Tensor copy = Tensor::empty(step_.parameters[table.number].shape);
    std::ranges::copy(numbers(t), copy.data<float>());
    tensors.emplace_back(prefix + "/" + name_of(table), copy);
  }
}

void StepProgram::set_tables(const FlatLayout& layout, const std::string& prefix,
                             const NamedTensors& tensors, const SetTable& set) const {
  const TensorsByName by_name(tensors.begin(), tensors.end());
  for (std::size_t t = 0; t < layout.tables.size(); ++t) {
    const kvstore::RowTable& table = layout.tables[t];
    const Tensor given = find(by_name, prefix + "/" + name_of(table), table.number).contiguous();
    set(t, {given.data<float>(), static_cast<std::size_t>(given.numel())});
  }
}

// Of each parameter in turn its place, and each element's number where the element lies: in order
// in a table.
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
  for (const kvstore::RowTable& table : layout.tables) {
    const std::uint64_t place[] = {table.number, table.rows, table.width};
    sum.update(std::as_bytes(std::span(place)));
  }
  return sum.hex();
}

}  // namespace lockstep::train::detail
