// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/graph/slice_rules.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce_attrs.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax_attrs.h"

namespace lockstep {
namespace {

int from_front(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

// How the cut looks in another shape of the same elements. An axis keeps its parts where it stays,
// is divided (its first piece has them) or takes in those after it.
std::optional<SliceCut> cut_in(const SliceCut& cut, const Shape& from, const Shape& to) {
  std::int64_t before = 1, after = 1;
  for (int axis = 0; axis < cut.axis; ++axis) before *= from[axis];
  for (int axis = cut.axis + 1; axis < from.rank(); ++axis) after *= from[axis];
  std::int64_t prefix = 1;
  for (int axis = 0; axis < to.rank(); prefix *= to[axis++]) {
    const bool of_stretch = prefix == before * cut.groups, of_groups = prefix == before;
    if (to[axis] == 1 || (!of_stretch && !of_groups)) continue;
    std::int64_t inner = 1;
    for (int later = axis + 1; later < to.rank(); ++later) inner *= to[later];
    SliceCut moved{axis, of_stretch ? 1 : cut.groups, {}};
    for (const std::int64_t bound : cut.bounds) {
      if (bound * after % inner != 0) break;
      moved.bounds.push_back(bound * after / inner);
    }
    if (moved.bounds.size() == cut.bounds.size() && moved.extent() == to[axis]) return moved;
  }
  return std::nullopt;
}

// An op on its first input alone, whose result is cut by `cut`.
SliceOutputs on_parts(const SliceCall& call, const SliceCut& cut,
                      const std::vector<Attrs>& attrs = {}) {
  const std::vector<SliceCut> cuts(call.outputs.size(), cut);
  return apply_to_parts(call, {call.tracer.parts_of(call.inputs[0])}, cuts, attrs);
}

}  // namespace

std::optional<Tensor> reshape_parts(SliceTracer& tracer, const Tensor& x, const Shape& shape) {
  if (x.numel() == 0) return std::nullopt;
  const auto cut = cut_in(tracer.cut_of(x), x.shape(), shape);
  if (!cut) return std::nullopt;
  std::vector<Tensor> parts = tracer.parts_of(x);
  for (std::size_t k = 0; k < parts.size(); ++k)
    parts[k] =
        lockstep::reshape(parts[k], cut->shape_of(shape, static_cast<std::int64_t>(k)).vector());
  return tracer.cut({shape, x.dtype(), x.device()}, *cut, std::move(parts));
}

namespace slice_rules {

SliceOutputs elementwise(const SliceCall& call) {
  const Shape& whole = call.outputs[0].shape;
  std::optional<SliceCut> common;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.is_cut(i)) continue;
    SliceCut cut = call.cut_of(i);
    cut.axis += whole.rank() - call.inputs[i].rank();
    if (common && !(*common == cut)) return std::nullopt;
    common = cut;
  }
  if (!common || whole[common->axis] != common->extent()) return std::nullopt;
  SliceInputs inputs;
  for (const Tensor& input : call.inputs)
    inputs.push_back(broadcast_parts(call.tracer, input, *common, whole.rank()));
  return apply_to_parts(call, inputs, std::vector(call.outputs.size(), *common));
}

SliceOutputs reshape(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  const auto made = reshape_parts(call.tracer, call.inputs[0], call.outputs[0].shape);
  return made ? SliceOutputs({*made}) : std::nullopt;
}

SliceOutputs transpose(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  SliceCut cut = call.cut_of(0);
  const Ints& axes = call.attrs.as<TransposeAttrs>().axes;
  const int rank = call.inputs[0].rank();
  for (int to = 0; to < rank; ++to) {
    const int from = axes.empty()
                         ? rank - 1 - to
                         : from_front(static_cast<int>(axes[static_cast<std::size_t>(to)]), rank);
    if (from != call.cut_of(0).axis) continue;
    cut.axis = to;
    break;
  }
  return on_parts(call, cut);
}

// Axes of 1 go: the cut one may not be among them.
SliceOutputs squeeze(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  const Tensor& x = call.inputs[0];
  SliceCut cut = call.cut_of(0);
  Ints dropped = call.attrs.as<SqueezeAttrs>().axes;
  if (dropped.empty())
    for (int axis = 0; axis < x.rank(); ++axis)
      if (x.shape(axis) == 1) dropped.push_back(axis);
  if (dropped.empty()) return std::nullopt;  // of a part, no axes would mean all of extent 1
  int before = 0;
  for (const std::int64_t axis : dropped) {
    const int place = from_front(static_cast<int>(axis), x.rank());
    if (place == cut.axis) return std::nullopt;
    before += place < cut.axis ? 1 : 0;
  }
  cut.axis -= before;
  return on_parts(call, cut,
                  std::vector(static_cast<std::size_t>(call.tracer.slices()),
                              Attrs::of(SqueezeAttrs{dropped})));
}

SliceOutputs expand_dims(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  SliceCut cut = call.cut_of(0);
  const int axis = from_front(call.attrs.as<ExpandDimsAttrs>().axis, call.outputs[0].shape.rank());
  if (axis <= cut.axis) ++cut.axis;
  return on_parts(call, cut);
}

SliceOutputs slice(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  const SliceCut& cut = call.cut_of(0);
  const auto at = static_cast<std::size_t>(cut.axis);
  SliceAttrs attrs = call.attrs.as<SliceAttrs>();
  if (call.outputs[0].shape[cut.axis] != cut.extent() ||
      (at < attrs.step.size() && attrs.step[at] != 1))
    return std::nullopt;
  std::vector<Attrs> by_slice;
  for (std::int64_t k = 0; k < cut.slices(); ++k) {
    if (at < attrs.begin.size()) attrs.begin[at] = 0;
    if (at < attrs.end.size()) attrs.end[at] = cut.extent(k);
    by_slice.push_back(Attrs::of(attrs));
  }
  return on_parts(call, cut, by_slice);
}

SliceOutputs softmax(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  const int axis = from_front(call.attrs.as<SoftmaxAttrs>().axis, call.inputs[0].rank());
  if (axis == call.cut_of(0).axis) return std::nullopt;
  return on_parts(call, call.cut_of(0));
}

SliceOutputs reduce(const SliceCall& call) {
  const auto& attrs = call.attrs.as<ReduceAttrs>();
  if (!call.is_cut(0) || attrs.axes.empty()) return std::nullopt;
  SliceCut cut = call.cut_of(0);
  int before = 0;
  for (const std::int64_t axis : attrs.axes) {
    const int place = from_front(static_cast<int>(axis), call.inputs[0].rank());
    if (place == cut.axis) return std::nullopt;
    before += place < cut.axis && !attrs.keepdims ? 1 : 0;
  }
  cut.axis -= before;
  return on_parts(call, cut);
}

// What is drawn for an element depends on its place in the whole: the whole mask is drawn. What it
// drops is 0, infinities too.
SliceOutputs dropout(const SliceCall& call) {
  if (!call.is_cut(0)) return std::nullopt;
  const Tensor& x = call.inputs[0];
  const Tensor mask =
      apply(call.op,
            std::vector{ones(x.shape(), x.dtype(), x.device()), call.tracer.whole(call.inputs[1])},
            call.attrs)[0];
  const SliceCut& cut = call.cut_of(0);
  std::vector<Tensor> parts = call.tracer.parts_of(x);
  const std::vector<Tensor> masks = slice_split(mask, cut);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Tensor nothing = zeros(parts[k].shape(), x.dtype(), x.device());
    parts[k] = where(not_equal(masks[k], 0.0), parts[k], nothing) * masks[k];
  }
  return std::vector{call.tracer.cut(x.info(), cut, std::move(parts))};
}

SliceOutputs pool(const SliceCall& call) {
  if (!call.is_cut(0) || call.cut_of(0).axis != 1 || call.inputs.size() != 1) return std::nullopt;
  return on_parts(call, call.cut_of(0));
}

}  // namespace slice_rules
}  // namespace lockstep
