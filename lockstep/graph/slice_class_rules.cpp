// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/slice_rules.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/loss_attrs.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/reduce_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep::slice_rules {
namespace {

// Which of the numbers in `ids` are in a slice's stretch, and where in it.
struct LocalIds {
  Tensor inside;  // bool
  Tensor places;  // 0 where they are elsewhere
};

LocalIds local_ids(const Tensor& ids, const SliceCut& cut, std::size_t slice) {
  const auto begin = static_cast<double>(cut.bounds[slice]);
  const auto end = static_cast<double>(cut.bounds[slice + 1]);
  const Tensor inside = logical_and(greater_equal(ids, begin), less(ids, end));
  return {inside, where(inside, ids - begin, zeros({}, ids.dtype(), ids.device()))};
}

Tensor zero_like(const Tensor& x) { return zeros({}, x.dtype(), x.device()); }

// Zeros, one for each of the ids; an id that is not below `count` is refused when it is met.
Tensor checked_zeros(const Tensor& ids, std::int64_t count, DType dtype) {
  return lockstep::embedding(ids, zeros({count, 1}, dtype, ids.device()));
}

Tensor embedding_by_rows(const SliceCall& call) {
  const Tensor ids = call.tracer.whole(call.inputs[0]);
  const std::vector<Tensor> of_slices = call.tracer.spread(ids);
  const std::vector<Tensor> tables = call.tracer.parts_of(call.inputs[1]);
  std::vector<Tensor> terms;
  for (std::size_t k = 0; k < tables.size(); ++k) {
    const LocalIds local = local_ids(of_slices[k], call.cut_of(1), k);
    const Tensor rows = lockstep::embedding(local.places, tables[k]);
    terms.push_back(where(lockstep::expand_dims(local.inside, -1), rows, zero_like(rows)));
  }
  const Tensor y = slice_sum(terms);
  return y + checked_zeros(ids, call.inputs[1].shape(0), y.dtype());
}

void decide_table(const SliceCall& call) {
  const UndecidedParameter* parameter = call.tracer.undecided_parameter(call.inputs[1]);
  if (parameter == nullptr || parameter->way == SplitWay::none) return;
  call.tracer.decide_even(call.inputs[1], parameter->way == SplitWay::rows ? 0 : 1);
}

}  // namespace

// Of rows, the slice that has one gives it and the others zeros.
SliceOutputs embedding(const SliceCall& call) {
  decide_table(call);
  if (!call.is_cut(1)) return std::nullopt;
  const SliceCut& cut = call.cut_of(1);
  if (cut.axis == 0 && cut.groups == 1) return std::vector{embedding_by_rows(call)};
  if (cut.axis != 1) return std::nullopt;
  const SliceCut columns{call.outputs[0].shape.rank() - 1, cut.groups, cut.bounds};
  return apply_to_parts(
      call, {call.tracer.spread(call.inputs[0]), call.tracer.parts_of(call.inputs[1])}, {columns});
}

// The largest logit of all slices, exactly; the tree sum of exponentials; the label's logit from
// the slice that has it.
SliceOutputs cross_entropy(const SliceCall& call) {
  const Tensor &logits = call.inputs[0], &labels = call.inputs[1];
  if (!call.is_cut(0) || is_floating(labels.dtype()) || logits.dtype() != DType::float32)
    return std::nullopt;
  const SliceCut& cut = call.cut_of(0);
  if (cut.axis != logits.rank() - 1 || cut.groups != 1) return std::nullopt;
  const double smoothing = call.attrs.as<CrossEntropyAttrs>().smoothing;
  const Tensor numbers = cast(call.tracer.whole(labels), DType::int64);
  std::vector<Tensor> parts = call.tracer.parts_of(logits), largest;
  for (const Tensor& part : parts) largest.push_back(max(stop_gradient(part), {-1}, true));
  const std::vector<Tensor> top = call.tracer.spread(slice_max(largest));
  const std::vector<Tensor> of_slices = call.tracer.spread(numbers);
  std::vector<Tensor> exponentials, labelled, sums;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Tensor below = parts[k] - top[k];
    exponentials.push_back(sum(exp(below), {-1}));
    const LocalIds local = local_ids(of_slices[k], cut, k);
    const Tensor picked = pick(below, local.places);
    labelled.push_back(where(local.inside, picked, zero_like(picked)));
    if (smoothing > 0.0) sums.push_back(sum(below, {-1}));
  }
  const Tensor log_sum = log(slice_sum(exponentials));
  Tensor likely = slice_sum(labelled);
  if (smoothing > 0.0)
    likely = likely * (1.0 - smoothing) +
             slice_sum(sums) * (smoothing / static_cast<double>(cut.extent()));
  const Tensor checked = checked_zeros(numbers, cut.extent(), DType::float32);
  return std::vector{log_sum - likely + lockstep::squeeze(checked, {-1}), log_sum};
}

// Each slice's best, and the best of those: the first of equals.
SliceOutputs argmax(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  const SliceCut& cut = call.cut_of(0);
  const auto& attrs = call.attrs.as<ArgAttrs>();
  const int rank = call.inputs[0].rank();
  const int axis = attrs.axis < 0 ? attrs.axis + rank : attrs.axis;
  if (axis != cut.axis || cut.groups != 1 || !is_floating(call.inputs[0].dtype()))
    return std::nullopt;
  const std::vector<Tensor> parts = call.tracer.parts_of(call.inputs[0]);
  std::vector<Tensor> values, places;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    values.push_back(max(parts[k], {axis}, true));
    places.push_back(lockstep::argmax(parts[k], axis, true) + static_cast<double>(cut.bounds[k]));
  }
  const SliceCut each{axis, 1, even_bounds(cut.slices(), cut.slices())};
  const Tensor best = lockstep::argmax(slice_gather(values, each), axis);
  const Tensor found = pick(slice_gather(places, each), best, axis);
  return std::vector{attrs.keepdims ? lockstep::expand_dims(found, axis) : found};
}

}  // namespace lockstep::slice_rules
