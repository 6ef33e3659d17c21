// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/slice_rules.h"
#include "lockstep/ops/conv_attrs.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::slice_rules {
namespace {

bool fits(const SliceCut& cut, int axis, std::int64_t extent) {
  return cut.axis == axis && cut.extent() == extent;
}

// A weight [units, features, ...] of which nobody knows yet how it is cut: by the features where x
// comes in parts of them, else by the units.
void decide_weight(const SliceCall& call, const Tensor& x, int axis_of_features) {
  const Tensor& weight = call.inputs[1];
  const UndecidedParameter* parameter = call.tracer.undecided_parameter(weight);
  if (parameter == nullptr) return;
  const bool comes_cut =
      call.tracer.is_cut(x) && fits(call.tracer.cut_of(x), axis_of_features, weight.shape(1));
  switch (parameter->way) {
    case SplitWay::none: return call.tracer.decide(weight, std::nullopt);
    case SplitWay::columns: return call.tracer.decide_even(weight, 0);
    case SplitWay::rows:
      if (!comes_cut) return call.tracer.decide_even(weight, 1);
      break;
    case SplitWay::automatic:
      if (!comes_cut) return call.tracer.decide_even(weight, 0);
      break;
  }
  SliceCut cut = call.tracer.cut_of(x);
  cut.axis = 1;
  call.tracer.decide(weight, cut);
}

// One number for each unit: cut with them, whatever its own layer is asked for.
void decide_like_units(const SliceCall& call, const Tensor& x, const SliceCut& units) {
  if (call.tracer.undecided_parameter(x) != nullptr)
    call.tracer.decide(x, SliceCut{0, units.groups, units.bounds});
}

// Every slice makes its units of all of x.
SliceOutputs by_columns(const SliceCall& call, const Tensor& x, int axis_of_units) {
  const SliceCut& units = call.cut_of(1);
  SliceInputs inputs{call.tracer.spread(x), call.tracer.parts_of(call.inputs[1])};
  if (call.inputs.size() > 2) {
    decide_like_units(call, call.inputs[2], units);
    inputs.push_back(call.tracer.parts_by(call.inputs[2], SliceCut{0, units.groups, units.bounds}));
  }
  return apply_to_parts(call, inputs, {SliceCut{axis_of_units, units.groups, units.bounds}});
}

// Every slice reads its features; what it makes is a term of the sum, to which the bias is added.
Tensor by_rows(const SliceCall& call, const Tensor& x, int axis_of_features) {
  SliceCut features = call.cut_of(1);
  features.axis = axis_of_features;
  const std::vector<Tensor> xs = call.tracer.parts_by(x, features);
  const std::vector<Tensor> weights = call.tracer.parts_of(call.inputs[1]);
  std::vector<Tensor> terms;
  for (std::size_t k = 0; k < xs.size(); ++k)
    terms.push_back(apply(call.op, std::vector{xs[k], weights[k]}, call.attrs)[0]);
  return slice_sum(terms);
}

}  // namespace

SliceOutputs dense(const SliceCall& call) {
  const auto& attrs = call.attrs.as<DenseAttrs>();
  if (!attrs.activation.empty()) return std::nullopt;
  Tensor x = call.inputs[0];
  if (attrs.flatten && x.rank() != 2 && call.tracer.is_cut(x)) {
    const Shape flat{x.shape(0), call.inputs[1].shape(1)};
    const auto reshaped = reshape_parts(call.tracer, x, flat);
    x = reshaped ? *reshaped : call.tracer.whole(x);
  }
  const bool is_flat = attrs.flatten && x.rank() == 2;
  const int features = is_flat ? 1 : x.rank() - 1;
  const bool can_cut_features = is_flat || !attrs.flatten;
  if (can_cut_features)
    decide_weight(call, x, features);
  else if (const auto* parameter = call.tracer.undecided_parameter(call.inputs[1])) {
    if (parameter->way == SplitWay::none) return std::nullopt;
    call.tracer.decide_even(call.inputs[1], 0);
  }
  if (!call.is_cut(1)) return std::nullopt;
  if (call.cut_of(1).axis == 0) return by_columns(call, x, call.outputs[0].shape.rank() - 1);
  if (!can_cut_features) x = lockstep::reshape(call.tracer.whole(x), {x.shape(0), -1});
  Tensor y = by_rows(call, x, can_cut_features ? features : 1);
  if (call.inputs.size() > 2) y = y + call.tracer.whole(call.inputs[2]);
  return std::vector{y};
}

SliceOutputs conv(const SliceCall& call) {
  const auto& attrs = call.attrs.as<ConvAttrs>();
  if (attrs.groups != 1 || !attrs.activation.empty()) return std::nullopt;
  decide_weight(call, call.inputs[0], 1);
  if (!call.is_cut(1)) return std::nullopt;
  if (call.cut_of(1).axis == 0) return by_columns(call, call.inputs[0], 1);
  if (call.cut_of(1).axis != 1) return std::nullopt;
  const Tensor y = by_rows(call, call.inputs[0], 1);
  if (call.inputs.size() == 2) return std::vector{y};
  Ints shape(static_cast<std::size_t>(y.rank()) - 1, 1);
  shape[0] = -1;
  return std::vector{y + lockstep::reshape(call.tracer.whole(call.inputs[2]), shape)};
}

SliceOutputs batch_norm(const SliceCall& call) {
  if (!call.is_cut(0) || call.cut_of(0).axis != 1 || call.inputs.size() != 3) return std::nullopt;
  const SliceCut channels = call.cut_of(0);
  const SliceCut each{0, channels.groups, channels.bounds};
  SliceInputs inputs{call.tracer.parts_of(call.inputs[0])};
  for (const std::size_t i : {1, 2}) {
    const UndecidedParameter* parameter = call.tracer.undecided_parameter(call.inputs[i]);
    if (parameter != nullptr && parameter->way != SplitWay::none)
      decide_like_units(call, call.inputs[i], channels);
    inputs.push_back(call.tracer.parts_by(call.inputs[i], each));
  }
  std::vector<SliceCut> cuts{channels};
  cuts.resize(call.outputs.size(), each);
  return apply_to_parts(call, inputs, cuts);
}

// By heads.
SliceOutputs attention(const SliceCall& call) {
  for (const std::size_t i : {0, 1, 2})
    if (!call.is_cut(i) || call.cut_of(i).axis != 1 || !(call.cut_of(i) == call.cut_of(0)))
      return std::nullopt;
  const SliceCut& heads = call.cut_of(0);
  SliceInputs inputs;
  for (const Tensor& input : call.inputs)
    inputs.push_back(broadcast_parts(call.tracer, input, heads, 4));
  SliceCut result = heads;  // [B, T, H, D]
  result.axis = 2;
  return apply_to_parts(call, inputs, {result, heads});
}

// Many products, of which each slice has some; or one whose second factor is cut.
SliceOutputs matmul(const SliceCall& call) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1];
  const auto& attrs = call.attrs.as<MatmulAttrs>();
  const int rank = call.outputs[0].shape.rank();
  if (call.is_cut(0) && call.is_cut(1) && a.rank() == b.rank() &&
      call.cut_of(0) == call.cut_of(1) && call.cut_of(0).axis < a.rank() - 2)
    return apply_to_parts(call, {call.tracer.parts_of(a), call.tracer.parts_of(b)},
                          {call.cut_of(0)});
  if (!call.is_cut(1) || b.rank() != 2 || a.rank() < 2 || attrs.transpose_a) return std::nullopt;
  const SliceCut& cut = call.cut_of(1);
  if (cut.axis == (attrs.transpose_b ? 0 : 1))
    return apply_to_parts(call, {call.tracer.spread(a), call.tracer.parts_of(b)},
                          {SliceCut{rank - 1, cut.groups, cut.bounds}});
  return std::vector{by_rows(call, a, a.rank() - 1)};
}

}  // namespace lockstep::slice_rules
