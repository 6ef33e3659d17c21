// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/slice_tracer.h"

#include <algorithm>

#include "lockstep/autograd/autograd.h"
#include "lockstep/autograd/recording.h"
#include "lockstep/base/error.h"
#include "lockstep/graph/slice_rules.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep {

Tensor SliceTracer::add(Value value) {
  const TensorInfo info = value.info;
  values_.push_back(std::make_unique<Value>(std::move(value)));
  const auto number = static_cast<std::int32_t>(values_.size()) - 1;
  return Tensor::symbolic(info, std::make_shared<TraceValue>(TraceValue{recording_, number}));
}

Tensor SliceTracer::cut(const TensorInfo& whole, const SliceCut& cut, std::vector<Tensor> parts) {
  check(static_cast<std::int64_t>(parts.size()) == slices_ && cut.slices() == slices_,
        "parts of another number of slices");
  for (std::int64_t k = 0; k < slices_; ++k)
    check(parts[static_cast<std::size_t>(k)].shape() == cut.shape_of(whole.shape, k),
          "a slice's part has another shape than its cut says");
  Value value;
  value.info = whole;
  value.cut = cut;
  value.parts = std::move(parts);
  return add(std::move(value));
}

Tensor SliceTracer::undecided(const TensorInfo& whole, UndecidedParameter parameter) {
  Value value;
  value.info = whole;
  value.parameter = parameter.name;
  value.undecided = std::make_unique<UndecidedParameter>(std::move(parameter));
  return add(std::move(value));
}

SliceTracer::Value* SliceTracer::find(const Tensor& x) const {
  if (!x.defined() || !x.is_symbolic() || x.trace_value()->recording != recording_) return nullptr;
  return values_[static_cast<std::size_t>(x.trace_value()->node)].get();
}

bool SliceTracer::is_cut(const Tensor& x) const {
  const Value* value = find(x);
  return value != nullptr && !value->parts.empty();
}

const SliceCut& SliceTracer::cut_of(const Tensor& x) const { return find(x)->cut; }

// A handle that was detached has no history.
std::vector<Tensor> SliceTracer::parts_of(const Tensor& x) {
  std::vector<Tensor> parts = find(x)->parts;
  if (x.trace_value()->history != History::whole)
    for (Tensor& part : parts) part = stop_gradient(part);
  return parts;
}

Tensor SliceTracer::whole(const Tensor& x) {
  Value* value = find(x);
  if (value == nullptr) return x;
  if (value->undecided) decide(x, std::nullopt);
  const bool plain = x.trace_value()->history == History::whole && !autograd::is_paused();
  Tensor result = value->whole;
  if (!result.defined()) {
    result = slice_gather(value->parts, value->cut);
    if (plain) value->whole = result;
  }
  return x.trace_value()->history == History::whole ? result : stop_gradient(result);
}

Tensor SliceTracer::plain(const Tensor& x) { return find(x) == nullptr ? x : whole(x); }

std::vector<Tensor> SliceTracer::spread(const Tensor& x) {
  const Tensor all = whole(x);
  if (!all.is_symbolic()) return std::vector(static_cast<std::size_t>(slices_), all);
  const TraceValue& value = *all.trace_value();
  const SpreadKey key{value.recording.get(), value.node, value.output,
                      static_cast<int>(value.history), autograd::is_recording()};
  const auto [place, fresh] = spread_.try_emplace(key);
  if (fresh) place->second = slice_spread(all, slices_);
  return place->second;
}

std::vector<Tensor> SliceTracer::parts_by(const Tensor& x, const SliceCut& cut) {
  if (is_cut(x) && cut_of(x) == cut) return parts_of(x);
  return slice_split(whole(x), cut);
}

const UndecidedParameter* SliceTracer::undecided_parameter(const Tensor& x) const {
  const Value* value = find(x);
  return value == nullptr ? nullptr : value->undecided.get();
}

void SliceTracer::decide_even(const Tensor& x, int axis) {
  const UndecidedParameter& parameter = *find(x)->undecided;
  const std::int64_t groups = axis == 0 ? parameter.groups : 1;
  const std::int64_t stretch = x.shape(axis) / groups;
  const std::int64_t units = axis == 0 && parameter.units > 0 ? parameter.units : stretch;
  if (units < slices_)
    throw InvalidArgument(
        "slices: {} has {} {}, which cannot be {} slices; leave its layer whole (none) or ask for "
        "fewer slices",
        parameter.name, units, axis == 0 && parameter.units > 0 ? "heads" : "units", slices_);
  Ints bounds = even_bounds(units, slices_);
  for (std::int64_t& bound : bounds) bound *= stretch / units;
  decide(x, SliceCut{axis, groups, std::move(bounds)});
}

void SliceTracer::decide(const Tensor& x, const std::optional<SliceCut>& cut) {
  Value& value = *find(x);
  const std::unique_ptr<UndecidedParameter> parameter = std::move(value.undecided);
  std::vector<Tensor> made = parameter->decide(cut);
  if (!cut) {
    value.whole = made.at(0);
    return;
  }
  value.cut = *cut;
  value.parts = std::move(made);
}

std::vector<Tensor> SliceTracer::run_whole(const OpDef& op, std::span<const Tensor> inputs,
                                           const Attrs& attrs) {
  std::vector<Tensor> wholes;
  for (const Tensor& input : inputs) wholes.push_back(whole(input));
  return apply(op, wholes, attrs);
}

std::vector<Tensor> SliceTracer::intercept(const OpDef& op, std::span<const Tensor> inputs,
                                           const Attrs& attrs) {
  const OuterScope outside;
  const auto is_own = [&](const Tensor& x) { return find(x) != nullptr; };
  if (std::none_of(inputs.begin(), inputs.end(), is_own)) return apply(op, inputs, attrs);
  if (!autograd::is_recording() && !autograd::is_paused())
    throw Unsupported(
        "slices: the net has a RecordScope of its own around '{}', which reads what is cut",
        op.name);
  Infos infos;
  for (const Tensor& input : inputs) {
    infos.push_back(input.info());
    const Value* value = find(input);
    if (value != nullptr && !value->parameter.empty()) readers_[value->parameter].insert(op.name);
  }
  const SliceCall call{*this, op, inputs, attrs, infer(op, infos, attrs)};
  if (auto outputs = run_by_slices(call)) return std::move(*outputs);
  return run_whole(op, inputs, attrs);
}

}  // namespace lockstep
