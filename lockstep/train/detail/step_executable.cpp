// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/step_executable.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/shard_tree.h"
#include "lockstep/graph/slice_types.h"

namespace lockstep::train::detail {

// What all clones have in common. A segment's graph is gone when it is compiled.
struct StepExecutable::Plan {
  // Of one segment.
  struct Part {
    std::vector<std::size_t> read, made, sent_states;  // crossing values
    std::size_t from_below = 0;
    std::vector<std::size_t> outputs;     // of the whole step, that are returned
    std::vector<std::size_t> deliveries;  // of the whole step
  };
  bool is_cut = false;
  std::optional<ShardRange> slices = {};  // of a worker that has some
  SegmentRange own{};
  std::int32_t all = 1;
  std::vector<Part> parts;
  std::vector<CrossingValue> values;
  Infos outputs;                                                      // that are returned
  std::vector<bool> made_here;                                        // by output
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> states;  // input: part, its input
  std::map<std::size_t, std::int32_t> homes;  // of a net that is cut, by input: the state's segment
  std::vector<std::size_t> below_up, below_down, above_up, above_down;

  // Constants are everybody's.
  bool has_slice(std::int32_t slice) const {
    return slice < 0 || !slices || (slice >= slices->lo && slice < slices->hi);
  }
  // Of crossing values, those of the slices that are here.
  std::vector<std::size_t> own_values(std::vector<std::size_t> numbers) const {
    std::erase_if(numbers, [&](std::size_t v) { return !has_slice(values[v].slice); });
    return numbers;
  }
};

namespace {

// The whole step's states and deliveries.
CompileOptions whole_options(const StepGraph& step, CompileOptions options) {
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    options.states.push_back(step.parameter_input(i));
  for (std::size_t i = 0; i < step.trainable.size(); ++i)
    options.deliveries.push_back(
        {step.gradient_output(i), step.parameter_input(step.trainable[i])});
  return options;
}

// By output of the whole step: its number among those that are returned.
std::vector<std::optional<std::size_t>> returned_numbers(const StepGraph& step,
                                                         const CompileOptions& whole) {
  std::vector<bool> delivered(step.graph.outputs().size(), false);
  for (const Delivery& delivery : whole.deliveries) delivered[delivery.output] = true;
  std::vector<std::optional<std::size_t>> numbers;
  std::size_t count = 0;
  for (const bool otherwise : delivered)
    numbers.push_back(otherwise ? std::nullopt : std::optional(count++));
  return numbers;
}

std::size_t delivery_of(const CompileOptions& whole, std::size_t output) {
  for (std::size_t i = 0; i < whole.deliveries.size(); ++i)
    if (whole.deliveries[i].output == output) return i;
  throw InternalError("an output that is not delivered");
}

// What a worker that has these slices computes of a graph, or all of it.
SlicesOf own_slices(Graph graph, const std::optional<ShardRange>& slices) {
  if (slices) return take_slices(graph, slices->lo, slices->hi);
  SlicesOf all{{},
               std::vector<std::size_t>(graph.inputs().size()),
               std::vector<std::size_t>(graph.outputs().size())};
  all.graph = std::move(graph);
  std::iota(all.inputs.begin(), all.inputs.end(), std::size_t{0});
  std::iota(all.outputs.begin(), all.outputs.end(), std::size_t{0});
  return all;
}

}  // namespace

SegmentRange segments_of_stage(std::int64_t segments, int stages, int stage) {
  const ShardRange own = deal_shards(segments, stages)[static_cast<std::size_t>(stage)];
  return {static_cast<std::int32_t>(own.lo), static_cast<std::int32_t>(own.hi)};
}

Segments segments_of(const StepGraph& step) {
  const CompileOptions whole = whole_options(step, {});
  SegmentOptions options{.segments = static_cast<std::int32_t>(step.cuts.size()) + 1,
                         .cells = step.cells,
                         .states = whole.states};
  if (step.cells.empty()) options.cells.resize(step.graph.nodes().size());
  for (const Delivery& delivery : whole.deliveries)
    options.outputs_with_states.emplace_back(delivery.output, delivery.like);
  return cut_into_segments(step.graph, options);
}

StepExecutable::StepExecutable(std::shared_ptr<const Plan> plan, std::vector<Executable> parts)
    : plan_(std::move(plan)), parts_(std::move(parts)) {
  make_values();
}
StepExecutable::StepExecutable(StepExecutable&&) noexcept = default;
StepExecutable& StepExecutable::operator=(StepExecutable&&) noexcept = default;
StepExecutable::~StepExecutable() = default;

StepExecutable StepExecutable::compile(const StepGraph& step, const CompileOptions& options,
                                       std::optional<SegmentRange> own,
                                       std::optional<ShardRange> slices) {
  const auto all = static_cast<std::int32_t>(step.cuts.size()) + 1;
  return compile(step, options, own.value_or(SegmentRange{0, all}), slices, nullptr);
}

StepExecutable StepExecutable::compile(const StepGraph& step, const CompileOptions& options,
                                       const StepExecutable& like) {
  return compile(step, options, like.plan_->own, like.plan_->slices, &like);
}

StepExecutable StepExecutable::compile(const StepGraph& step, const CompileOptions& options,
                                       SegmentRange own, std::optional<ShardRange> slices,
                                       const StepExecutable* like) {
  if (slices && step.cuts.empty()) return compile_slices(step, options, *slices, like);
  const CompileOptions whole = whole_options(step, options);
  const auto compile_part = [&](const Graph& graph, const CompileOptions& of_part,
                                std::size_t part) {
    return like ? Executable::compile(graph, of_part, like->parts_[part])
                : Executable::compile(graph, of_part);
  };
  auto plan = std::make_shared<Plan>();
  std::vector<Executable> parts;
  if (step.cuts.empty()) {
    for (const std::size_t state : whole.states) plan->states[state] = {0, state};
    parts.push_back(compile_part(step.graph, whole, 0));
    plan->outputs = parts[0].output_infos();
    plan->made_here.assign(plan->outputs.size(), true);
    return {std::move(plan), std::move(parts)};
  }
  Segments cut = segments_of(step);
  const auto numbers = returned_numbers(step, whole);
  plan->is_cut = true;
  plan->slices = slices;
  plan->own = own;
  plan->all = static_cast<std::int32_t>(cut.segments.size());
  plan->values = cut.values;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i]) plan->outputs.push_back(step.graph.info(step.graph.outputs()[i]));
  plan->made_here.assign(plan->outputs.size(), false);
  for (std::int32_t s = 0; s < plan->all; ++s)
    for (const std::size_t state : cut.segments[static_cast<std::size_t>(s)].states)
      plan->homes[state] = s;
  for (std::int32_t s = own.lo; s < own.hi; ++s) {
    Segment& segment = cut.segments[static_cast<std::size_t>(s)];
    const std::size_t place = plan->parts.size();
    const SlicesOf taken = own_slices(std::move(segment.graph), slices);
    CompileOptions of_part = options;
    Plan::Part part;
    for (std::size_t k = 0; k < taken.inputs.size(); ++k) {
      if (taken.inputs[k] < cut.shared_inputs) continue;
      const std::size_t read = taken.inputs[k] - cut.shared_inputs;
      if (read >= segment.read.size()) {
        plan->states[segment.states[read - segment.read.size()]] = {place, k};
        of_part.states.push_back(k);
        continue;
      }
      part.read.push_back(segment.read[read]);
      if (read < segment.from_below)
        ++part.from_below;
      else
        of_part.late_inputs.push_back(k);
    }
    for (std::size_t k = 0; k < taken.outputs.size(); ++k) {
      const std::size_t made = taken.outputs[k];
      if (segment.is_early[made]) of_part.early_outputs.push_back(k);
      if (made < segment.made.size()) {
        part.made.push_back(segment.made[made]);
        continue;
      }
      const std::size_t output = segment.outputs[made - segment.made.size()];
      if (numbers[output]) {
        part.outputs.push_back(*numbers[output]);
        plan->made_here[*numbers[output]] = true;
        continue;
      }
      const std::size_t delivery = delivery_of(whole, output);
      of_part.deliveries.push_back({k, plan->states.at(whole.deliveries[delivery].like).second});
      part.deliveries.push_back(delivery);
    }
    for (std::size_t v = 0; v < cut.values.size(); ++v)
      if (cut.values[v].state && cut.values[v].from == s && plan->has_slice(cut.values[v].slice))
        part.sent_states.push_back(v);
    parts.push_back(compile_part(taken.graph, of_part, place));
    plan->parts.push_back(std::move(part));
  }
  if (own.lo > 0) {
    plan->below_up = plan->own_values(cut.going_up(own.lo - 1));
    plan->below_down = plan->own_values(cut.going_down(own.lo - 1));
  }
  if (own.hi < plan->all) {
    plan->above_up = plan->own_values(cut.going_up(own.hi - 1));
    plan->above_down = plan->own_values(cut.going_down(own.hi - 1));
  }
  return {std::move(plan), std::move(parts)};
}

StepExecutable StepExecutable::compile_slices(const StepGraph& step, const CompileOptions& options,
                                              ShardRange slices, const StepExecutable* like) {
  const CompileOptions whole = whole_options(step, options);
  const SlicesOf taken = take_slices(step.graph, slices.lo, slices.hi);
  const auto numbers = returned_numbers(step, whole);
  auto plan = std::make_shared<Plan>();
  plan->slices = slices;
  CompileOptions own = options;
  for (std::size_t k = 0; k < taken.inputs.size(); ++k) {
    if (taken.inputs[k] < step.parameter_input(0)) continue;
    plan->states[taken.inputs[k]] = {0, k};
    own.states.push_back(k);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i]) plan->outputs.push_back(step.graph.info(step.graph.outputs()[i]));
  plan->made_here.assign(plan->outputs.size(), false);
  Plan::Part part;
  for (std::size_t k = 0; k < taken.outputs.size(); ++k) {
    if (const auto number = numbers[taken.outputs[k]]) {
      part.outputs.push_back(*number);
      plan->made_here[*number] = true;
      continue;
    }
    const std::size_t delivery = delivery_of(whole, taken.outputs[k]);
    own.deliveries.push_back({k, plan->states.at(whole.deliveries[delivery].like).second});
    part.deliveries.push_back(delivery);
  }
  plan->parts.push_back(std::move(part));
  std::vector<Executable> parts;
  parts.push_back(like ? Executable::compile(taken.graph, own, like->parts_[0])
                       : Executable::compile(taken.graph, own));
  return {std::move(plan), std::move(parts)};
}

StepExecutable StepExecutable::clone() const {
  std::vector<Executable> parts;
  for (const Executable& part : parts_) parts.push_back(part.clone());
  return {plan_, std::move(parts)};
}

StepExecutable StepExecutable::clone(const StepExecutable& like) const {
  std::vector<Executable> parts;
  for (std::size_t i = 0; i < parts_.size(); ++i) parts.push_back(parts_[i].clone(like.parts_[i]));
  return {plan_, std::move(parts)};
}

// Those that are made, read or passed on here.
void StepExecutable::make_values() {
  const SegmentRange& own = plan_->own;
  for (const CrossingValue& value : plan_->values) {
    const bool comes_here =
        value.lowest < own.hi && value.highest >= own.lo && plan_->has_slice(value.slice);
    values_.push_back(comes_here
                          ? Tensor::zeros(value.info.shape, value.info.dtype, value.info.device)
                          : Tensor());
  }
}

void StepExecutable::run_into(TensorList inputs, TensorList outputs,
                              const Executable::Receiver& receiver) {
  begin(inputs, outputs);
  while (go_on(receiver)) continue;
}

void StepExecutable::begin(TensorList inputs, TensorList outputs) {
  if (!plan_->is_cut && !plan_->slices) return parts_[0].begin(inputs, outputs);
  inputs_.assign(inputs.begin(), inputs.end());
  outputs_.assign(outputs.begin(), outputs.end());
  next_ = 0;
  if (!plan_->is_cut) begin_part(0);
}

// A parameter that other segments read too goes to them with each shard.
void StepExecutable::take_states(std::size_t part) {
  for (const std::size_t v : plan_->parts[part].sent_states)
    values_[v] = state(*plan_->values[v].state);
}

std::vector<Tensor> StepExecutable::inputs_of(std::size_t part) const {
  std::vector<Tensor> inputs = inputs_;
  for (const std::size_t v : plan_->parts[part].read) inputs.push_back(values_[v]);
  return inputs;
}

void StepExecutable::begin_part(std::size_t part) {
  const Plan::Part& own = plan_->parts[part];
  std::vector<Tensor> outputs = values_at(own.made);
  for (const std::size_t output : own.outputs) outputs.push_back(outputs_[output]);
  parts_[part].begin(inputs_of(part), outputs);
}

void StepExecutable::forward(std::size_t part) {
  take_states(part);
  begin_part(part);
  parts_[part].run_first_part();
}

bool StepExecutable::backward(std::size_t part, const Executable::Receiver& receiver) {
  return parts_[part].go_on([&](std::size_t delivery, std::span<const std::byte> bytes) {
    if (receiver) receiver(plan_->parts[part].deliveries[delivery], bytes);
  });
}

bool StepExecutable::go_on(const Executable::Receiver& receiver) {
  if (!plan_->is_cut) return plan_->slices ? backward(0, receiver) : parts_[0].go_on(receiver);
  const std::size_t count = parts_.size();
  for (; next_ < count; ++next_) forward(next_);
  for (; next_ < 2 * count; ++next_)
    if (backward(2 * count - 1 - next_, receiver)) return true;
  return false;
}

void StepExecutable::run_forward() {
  for (std::size_t part = 0; part < parts_.size(); ++part) forward(part);
}

void StepExecutable::run_backward_of_inputs(bool again) {
  if (again) run_forward();
  for (std::size_t part = parts_.size(); part-- > 0;) parts_[part].run_second_part();
}

void StepExecutable::run_backward(bool again, const Executable::Receiver& receiver) {
  if (again) run_forward();
  run_backward_of_weights(receiver);
}

void StepExecutable::run_backward_of_weights(const Executable::Receiver& receiver) {
  for (std::size_t part = parts_.size(); part-- > 0;)
    while (backward(part, receiver)) continue;
}

std::size_t StepExecutable::part_of(std::size_t state) const {
  return plan_->states.at(state).first;
}

void StepExecutable::run_forward(std::size_t part) {
  if (plan_->is_cut) forward(part);
}

void StepExecutable::run_backward(std::size_t part, const Executable::Receiver& receiver) {
  if (!plan_->is_cut)
    while (parts_[part].go_on(receiver)) continue;
  else
    while (backward(part, receiver)) continue;
}

std::vector<Tensor> StepExecutable::values_at(const std::vector<std::size_t>& numbers) const {
  std::vector<Tensor> values;
  for (const std::size_t v : numbers) values.push_back(values_[v]);
  return values;
}

std::vector<Tensor> StepExecutable::from_below() const { return values_at(plan_->below_up); }
std::vector<Tensor> StepExecutable::to_above() const { return values_at(plan_->above_up); }
std::vector<Tensor> StepExecutable::from_above() const { return values_at(plan_->above_down); }
std::vector<Tensor> StepExecutable::to_below() const { return values_at(plan_->below_down); }
const SegmentRange& StepExecutable::segments() const { return plan_->own; }
std::int32_t StepExecutable::all_segments() const { return plan_->all; }

// Forward passes from the first segment on, with gradients of zeros; then backward passes from the
// last on, with the true ones. What comes from another segment is not what is looked for.
std::optional<NonFinite> StepExecutable::find_non_finite(TensorList inputs) {
  if (!plan_->is_cut) return parts_[0].find_non_finite(inputs);
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : plan_->outputs)
    outputs.push_back(Tensor::zeros(info.shape, info.dtype, info.device));
  run_into(inputs, outputs, {});
  const auto find = [&](std::size_t part, bool backward) -> std::optional<NonFinite> {
    std::vector<Tensor> given = inputs_of(part);
    const std::size_t late = inputs_.size() + plan_->parts[part].from_below;
    for (std::size_t i = late; i < given.size() && !backward; ++i)
      given[i] = Tensor::zeros(given[i].shape(), given[i].dtype(), given[i].device());
    std::optional<NonFinite> found = parts_[part].find_non_finite(given);
    if (!found) return {};
    if (found->kind == NonFinite::Kind::input && found->index >= inputs_.size()) return {};
    if (found->kind == NonFinite::Kind::state)
      for (const auto& [input, place] : plan_->states)
        if (place == std::pair(part, found->index)) return NonFinite{found->kind, input};
    return found;
  };
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (auto found = find(part, false)) return found;
  for (std::size_t part = parts_.size(); part-- > 0;)
    if (auto found = find(part, true)) return found;
  return {};
}

std::int32_t StepExecutable::segment_of(std::size_t input) const {
  return plan_->homes.empty() ? 0 : plan_->homes.at(input);
}

bool StepExecutable::has_state(std::size_t input) const { return plan_->states.contains(input); }
bool StepExecutable::makes_output(std::size_t output) const { return plan_->made_here[output]; }

StepExecutable::Local StepExecutable::local(std::size_t input) const {
  const auto [part, place] = plan_->states.at(input);
  return {parts_[part], place};
}

void StepExecutable::set_state(std::size_t input, const Tensor& value) {
  const Local at = local(input);
  at.executable.set_state(at.input, value);
}
Tensor StepExecutable::state(std::size_t input) const {
  const Local at = local(input);
  return at.executable.state(at.input);
}
std::span<std::byte> StepExecutable::state_memory(std::size_t input) const {
  const Local at = local(input);
  return at.executable.state_memory(at.input);
}
void StepExecutable::set_state_memory(std::size_t input, std::span<std::byte> memory) {
  const Local at = local(input);
  at.executable.set_state_memory(at.input, memory);
}
void StepExecutable::pack(std::size_t input, const Tensor& value,
                          std::span<std::byte> bytes) const {
  const Local at = local(input);
  at.executable.pack(at.input, value, bytes);
}
Tensor StepExecutable::unpack(std::size_t input, std::span<const std::byte> bytes) const {
  const Local at = local(input);
  return at.executable.unpack(at.input, bytes);
}

void StepExecutable::refresh(std::size_t part) {
  for (Executable& executable : parts_) {
    if (part < executable.refresh_parts()) return executable.refresh(part);
    part -= executable.refresh_parts();
  }
}
std::size_t StepExecutable::refresh_parts() const {
  std::size_t count = 0;
  for (const Executable& part : parts_) count += part.refresh_parts();
  return count;
}
void StepExecutable::set_fresh() {
  for (Executable& part : parts_) part.set_fresh();
}
bool StepExecutable::is_fresh() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Executable& part) { return part.is_fresh(); });
}

const Infos& StepExecutable::output_infos() const { return plan_->outputs; }

std::vector<std::size_t> StepExecutable::delivery_order() const {
  if (!plan_->is_cut && !plan_->slices) return parts_[0].delivery_order();
  std::vector<std::size_t> order;
  for (std::size_t part = parts_.size(); part-- > 0;)
    for (const std::size_t delivery : parts_[part].delivery_order())
      order.push_back(plan_->parts[part].deliveries[delivery]);
  return order;
}

std::size_t StepExecutable::arena_bytes() const {
  std::size_t bytes = 0;
  for (const Executable& part : parts_) bytes += part.arena_bytes();
  return bytes;
}
std::size_t StepExecutable::values_bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& value : values_)
    if (value.defined()) bytes += value.info().bytes();
  return bytes;
}
std::size_t StepExecutable::state_bytes() const {
  std::size_t bytes = 0;
  for (const Executable& part : parts_) bytes += part.state_bytes();
  return bytes;
}
const Executable& StepExecutable::first() const { return parts_.front(); }

}  // namespace lockstep::train::detail
