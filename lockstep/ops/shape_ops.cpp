// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/shape_ops.h"

#include <algorithm>
#include <array>

#include "lockstep/ops/cpu/shape_ops.h"
#include "lockstep/ops/detail/shape_defs.h"
#include "lockstep/ops/detail/slice_range.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/ops/view.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

using detail::resolve_slice;
using detail::SliceRange;

// Every window op but reshape is one function from (shape, strides) to a window. Inference is that
// function on dense strides; it throws on bad attributes.
template <ViewFn view>
Infos infer_view(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  return {{view(x, contiguous_strides(x.shape), args.attrs)->shape, x.dtype, x.device}};
}

template <ViewFn view>
constexpr KernelCandidate kCopyView[] = {
    {.name = "copy", .dtypes = kAllTypes, .direct = &copy_view<view>, .strided_inputs = true}};

Shape resolve_reshape(const Shape& from, const Ints& to) {
  Shape shape(to);
  const auto fail = [&] {
    return InvalidArgument("reshape: shape {} has {} elements, they do not fit into {}", from.str(),
                           from.numel(), shape.str());
  };
  int open = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < -1 || (shape[i] == -1 && open >= 0))
      throw InvalidArgument("reshape: shape {} may have one -1 and no other negative size",
                            shape.str());
    if (shape[i] == -1)
      open = i;
    else
      known = detail::checked_product("reshape", known, shape[i]);
  }
  if (open >= 0) {
    if (known == 0 || from.numel() % known != 0) throw fail();
    shape[open] = from.numel() / known;
  } else if (known != from.numel()) {
    throw fail();
  }
  return detail::checked_shape("reshape", shape);
}

// Strides that read memory of (from, strides) as `to`, where there are any: groups of axes with the
// same product are matched, and a group of old axes must be one run.
std::optional<Strides> reshape_strides(const Shape& from, const Strides& strides, const Shape& to) {
  if (from.numel() == 0 || is_contiguous(from, strides)) return contiguous_strides(to);
  Shape old_shape = from;
  Strides old_strides = strides;
  std::array<Strides*, 1> operands{&old_strides};
  merge_axes(old_shape, operands);
  Strides result = Strides::filled(to.rank(), 1);
  int axis = to.rank() - 1;
  for (int run = old_shape.rank() - 1; run >= 0; --run) {
    std::int64_t left = old_shape[run];
    std::int64_t step = old_strides[run];
    while (axis >= 0 && (left > 1 || to[axis] == 1)) {
      if (left % to[axis] != 0) return std::nullopt;
      result[axis] = step;
      step *= to[axis];
      left /= to[axis--];
    }
    if (left != 1) return std::nullopt;
  }
  return result;
}

std::optional<ViewSpec> view_reshape(const TensorInfo& x, const Strides& strides,
                                     const Attrs& attrs) {
  const Shape shape = resolve_reshape(x.shape, attrs.as<ReshapeAttrs>().shape);
  if (const auto fitting = reshape_strides(x.shape, strides, shape))
    return ViewSpec{shape, *fitting, 0};
  return std::nullopt;
}

std::vector<Tensor> grad_to_input_shape(const GradientArgs& args) {
  return {reshape(args.grad(), args.inputs[0].shape().vector())};
}

constexpr ArgumentDoc kWindowed[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kWindow[] = {
    {"y", "a window on x's memory where strides allow, else a copy"}};
constexpr ArgumentDoc kSliceGrad[] = {{"grad", "the slice's gradient"}};
constexpr ArgumentDoc kSliceGradOutput[] = {{"grad_x", "of the given shape"}};
constexpr OpDocs kReshapeDocs{"The same elements, in row-major order, under another shape.",
                              kWindowed, kWindow};
constexpr OpDocs kTransposeDocs{"The axes in another order.", kWindowed, kWindow};
constexpr OpDocs kExpandDocs{
    "Broadcasts x to a shape: axes of size 1 are repeated, new ones come first.", kWindowed,
    kWindow};
constexpr OpDocs kSqueezeDocs{"Drops axes of size 1.", kWindowed, kWindow};
constexpr OpDocs kExpandDimsDocs{"Puts in an axis of size 1.", kWindowed, kWindow};
constexpr OpDocs kSliceDocs{"x[begin:end:step] along each axis, as Python reads it.", kWindowed,
                            kWindow};
constexpr OpDocs kSliceBackwardDocs{"slice's gradient: zeros, with grad where the slice was.",
                                    kSliceGrad, kSliceGradOutput};
constexpr OpDocs kFlipDocs{"Reverses the order along axes.", kWindowed, kWindow};
constexpr OpDocs kStopGradientDocs{"x itself; no gradient flows back through it.", kWindowed,
                                   kWindow};

const OpDef& reshape_op() {
  static const OpDef op{.name = "reshape",
                        .docs = kReshapeDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<ReshapeAttrs>(),
                        .infer = infer_view<view_reshape>,
                        .gradient = grad_to_input_shape,
                        .view = view_reshape,
                        .cpu = kernels::reshape()};
  return op;
}

std::vector<int> resolve_permutation(const Ints& axes, int rank) {
  std::vector<int> order;
  if (axes.empty())
    for (int i = rank - 1; i >= 0; --i) order.push_back(i);
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  for (std::int64_t axis : axes) {
    order.push_back(normalize_axis("transpose", axis, rank));
    seen[static_cast<std::size_t>(order.back())] = true;
  }
  const bool whole =
      axes.empty() || std::all_of(seen.begin(), seen.end(), [](bool s) { return s; });
  if (static_cast<int>(order.size()) != rank || !whole)
    throw InvalidArgument("transpose: axes {} are not a permutation of {} dimensions",
                          to_string(AttrValue(axes)), rank);
  return order;
}

std::optional<ViewSpec> view_transpose(const TensorInfo& x, const Strides& strides,
                                       const Attrs& attrs) {
  ViewSpec spec;
  for (int axis : resolve_permutation(attrs.as<TransposeAttrs>().axes, x.shape.rank())) {
    spec.shape.push_back(x.shape[axis]);
    spec.strides.push_back(strides[axis]);
  }
  return spec;
}

std::vector<Tensor> transpose_gradient(const GradientArgs& args) {
  const int rank = args.inputs[0].rank();
  const auto order = resolve_permutation(args.attrs.as<TransposeAttrs>().axes, rank);
  Ints back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return {transpose(args.grad(), back)};
}

const OpDef& transpose_op() {
  static const OpDef op{.name = "transpose",
                        .docs = kTransposeDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<TransposeAttrs>(),
                        .infer = infer_view<view_transpose>,
                        .gradient = transpose_gradient,
                        .view = view_transpose,
                        .cpu = kCopyView<view_transpose>};
  return op;
}

std::optional<ViewSpec> view_expand(const TensorInfo& x, const Strides& strides,
                                    const Attrs& attrs) {
  const Shape target(attrs.as<ExpandAttrs>().shape);
  bool fits = x.shape.rank() <= target.rank();
  const int lead = target.rank() - x.shape.rank();
  for (int i = 0; fits && i < x.shape.rank(); ++i)
    fits = x.shape[i] == 1 || x.shape[i] == target[lead + i];
  if (!fits)
    throw InvalidArgument("expand: shape {} does not broadcast to {}", x.shape.str(), target.str());
  detail::checked_shape("expand", target);
  return ViewSpec{target, broadcast_strides(x.shape, strides, target), 0};
}

std::vector<Tensor> expand_gradient(const GradientArgs& args) {
  return {sum_to(args.grad(), args.inputs[0].shape())};
}

const OpDef& expand_op() {
  static const OpDef op{.name = "expand",
                        .docs = kExpandDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<ExpandAttrs>(),
                        .infer = infer_view<view_expand>,
                        .gradient = expand_gradient,
                        .view = view_expand,
                        .cpu = kCopyView<view_expand>};
  return op;
}

std::optional<ViewSpec> view_squeeze(const TensorInfo& x, const Strides& strides,
                                     const Attrs& attrs) {
  const Ints& axes = attrs.as<SqueezeAttrs>().axes;
  ViewSpec spec{x.shape, strides, 0};
  const std::vector<int> named = normalize_axes("squeeze", axes, x.shape.rank());
  for (auto axis = named.rbegin(); axis != named.rend(); ++axis) {
    if (x.shape[*axis] != 1 && axes.empty()) continue;
    if (x.shape[*axis] != 1)
      throw InvalidArgument("squeeze: axis {} of shape {} has size {}, not 1", *axis, x.shape.str(),
                            x.shape[*axis]);
    spec.shape.erase(*axis);
    spec.strides.erase(*axis);
  }
  return spec;
}

const OpDef& squeeze_op() {
  static const OpDef op{.name = "squeeze",
                        .docs = kSqueezeDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<SqueezeAttrs>(),
                        .infer = infer_view<view_squeeze>,
                        .gradient = grad_to_input_shape,
                        .view = view_squeeze,
                        .cpu = kCopyView<view_squeeze>};
  return op;
}

std::optional<ViewSpec> view_expand_dims(const TensorInfo& x, const Strides& strides,
                                         const Attrs& attrs) {
  const int rank = x.shape.rank();
  const int axis = normalize_axis("expand_dims", attrs.as<ExpandDimsAttrs>().axis, rank + 1);
  ViewSpec spec{x.shape, strides, 0};
  spec.shape.insert(axis, 1);
  spec.strides.insert(axis, axis < rank ? strides[axis] * x.shape[axis] : 1);
  return spec;
}

const OpDef& expand_dims_op() {
  static const OpDef op{.name = "expand_dims",
                        .docs = kExpandDimsDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<ExpandDimsAttrs>(),
                        .infer = infer_view<view_expand_dims>,
                        .gradient = grad_to_input_shape,
                        .view = view_expand_dims,
                        .cpu = kCopyView<view_expand_dims>};
  return op;
}

template <class A>
void check_slice(const char* op, const Shape& shape, const A& a) {
  if (a.begin.size() != a.end.size() || (!a.step.empty() && a.step.size() != a.begin.size()))
    throw InvalidArgument("{}: {} begins, {} ends and {} steps do not belong together", op,
                          a.begin.size(), a.end.size(), a.step.size());
  if (static_cast<int>(a.begin.size()) > shape.rank())
    throw InvalidArgument("{}: {} ranges, the shape is {}", op, a.begin.size(), shape.str());
  for (std::int64_t step : a.step)
    if (step == 0) throw InvalidArgument("{}: a step is 0", op);
}

template <class A>
ViewSpec slice_window(const Shape& shape, const Strides& strides, const A& a) {
  ViewSpec spec{shape, strides, 0};
  for (std::size_t i = 0; i < a.begin.size(); ++i) {
    const int axis = static_cast<int>(i);
    const SliceRange range =
        resolve_slice(shape[axis], a.begin[i], a.end[i], a.step.empty() ? 1 : a.step[i]);
    spec.shape[axis] = range.count;
    spec.strides[axis] = strides[axis] * range.step;
    if (range.count > 0) spec.offset += range.first * strides[axis];
  }
  if (spec.shape.numel() == 0) spec.offset = 0;
  return spec;
}

std::optional<ViewSpec> view_slice(const TensorInfo& x, const Strides& strides,
                                   const Attrs& attrs) {
  const auto& a = attrs.as<SliceAttrs>();
  check_slice("slice", x.shape, a);
  return slice_window(x.shape, strides, a);
}

const OpDef& slice_backward_op();

std::vector<Tensor> slice_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<SliceAttrs>();
  const Ints shape = args.inputs[0].shape().vector();
  return {apply_one(slice_backward_op(), {args.grad()},
                    Attrs::of(SliceBackwardAttrs{shape, a.begin, a.end, a.step}))};
}

const OpDef& slice_op() {
  static const OpDef op{.name = "slice",
                        .docs = kSliceDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<SliceAttrs>(),
                        .infer = infer_view<view_slice>,
                        .gradient = slice_gradient,
                        .view = view_slice,
                        .cpu = kCopyView<view_slice>};
  return op;
}

Infos infer_slice_backward(const InferArgs& args) {
  const auto& a = args.attrs.as<SliceBackwardAttrs>();
  const Shape shape(a.shape);
  const TensorInfo& grad = args.inputs[0];
  detail::checked_shape(args.op, shape);
  check_slice(args.op, shape, a);
  const Shape sliced = slice_window(shape, contiguous_strides(shape), a).shape;
  if (!(sliced == grad.shape))
    throw InvalidArgument("{}: the gradient has shape {}, the slice has {}", args.op,
                          grad.shape.str(), sliced.str());
  return {{shape, grad.dtype, grad.device}};
}

std::vector<Tensor> slice_backward_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<SliceBackwardAttrs>();
  return {slice(args.grad(), a.begin, a.end, a.step)};
}

void run_slice_backward(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const ViewSpec spec = slice_window(out.shape, out.strides, call.attrs.as<SliceBackwardAttrs>());
  kernels::write_window_in_zeros(call.inputs[0], out, spec);
}

constexpr KernelCandidate kSliceBackward[] = {{.name = "copy into zeros",
                                               .dtypes = kAllTypes,
                                               .direct = run_slice_backward,
                                               .strided_inputs = true}};

const OpDef& slice_backward_op() {
  static const OpDef op{.name = "slice_backward",
                        .docs = kSliceBackwardDocs,
                        .schema = attr_schema<SliceBackwardAttrs>(),
                        .infer = infer_slice_backward,
                        .gradient = slice_backward_gradient,
                        .cpu = kSliceBackward};
  return op;
}

std::optional<ViewSpec> view_flip(const TensorInfo& x, const Strides& strides, const Attrs& attrs) {
  ViewSpec spec{x.shape, strides, 0};
  for (int axis : normalize_axes("flip", attrs.as<FlipAttrs>().axes, x.shape.rank())) {
    spec.strides[axis] = -strides[axis];
    if (x.shape.numel() > 0) spec.offset += (x.shape[axis] - 1) * strides[axis];
  }
  return spec;
}

std::vector<Tensor> flip_gradient(const GradientArgs& args) {
  return {flip(args.grad(), args.attrs.as<FlipAttrs>().axes)};
}

const OpDef& flip_op() {
  static const OpDef op{.name = "flip",
                        .docs = kFlipDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<FlipAttrs>(),
                        .infer = infer_view<view_flip>,
                        .gradient = flip_gradient,
                        .view = view_flip,
                        .cpu = kCopyView<view_flip>};
  return op;
}

std::optional<ViewSpec> view_whole(const TensorInfo& x, const Strides& strides, const Attrs&) {
  return ViewSpec{x.shape, strides, 0};
}

const OpDef& stop_gradient_op() {
  static const OpDef op{.name = "stop_gradient",
                        .docs = kStopGradientDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<StopGradientAttrs>(),
                        .infer = infer_view<view_whole>,
                        .view = view_whole,
                        .cpu = kCopyView<view_whole>};
  return op;
}

}  // namespace

Tensor reshape(const Tensor& x, const Ints& shape) {
  return apply_one(reshape_op(), {x}, Attrs::of(ReshapeAttrs{shape}));
}

Tensor flatten(const Tensor& x, int start_axis) {
  detail::check_defined("flatten", x);
  const int start =
      start_axis == x.rank() ? start_axis : normalize_axis("flatten", start_axis, x.rank());
  Ints shape(x.shape().begin(), x.shape().begin() + start);
  std::int64_t rest = 1;
  for (int i = start; i < x.rank(); ++i) rest *= x.shape()[i];
  shape.push_back(rest);
  return reshape(x, shape);
}

Tensor transpose(const Tensor& x, const Ints& axes) {
  return apply_one(transpose_op(), {x}, Attrs::of(TransposeAttrs{axes}));
}

Tensor swap_axes(const Tensor& x, int a, int b) {
  detail::check_defined("swap_axes", x);
  Ints axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::swap(axes[static_cast<std::size_t>(normalize_axis("swap_axes", a, x.rank()))],
            axes[static_cast<std::size_t>(normalize_axis("swap_axes", b, x.rank()))]);
  return transpose(x, axes);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  return apply_one(expand_op(), {x}, Attrs::of(ExpandAttrs{shape.vector()}));
}

Tensor squeeze(const Tensor& x, const Ints& axes) {
  return apply_one(squeeze_op(), {x}, Attrs::of(SqueezeAttrs{axes}));
}

Tensor expand_dims(const Tensor& x, int axis) {
  return apply_one(expand_dims_op(), {x}, Attrs::of(ExpandDimsAttrs{axis}));
}

Tensor slice(const Tensor& x, const Ints& begin, const Ints& end, const Ints& step) {
  return apply_one(slice_op(), {x}, Attrs::of(SliceAttrs{begin, end, step}));
}

Tensor slice_axis(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  detail::check_defined("slice_axis", x);
  const auto named = static_cast<std::size_t>(normalize_axis("slice_axis", axis, x.rank()));
  Ints begins(named + 1, 0);
  Ints ends(x.shape().begin(), x.shape().begin() + named + 1);
  begins[named] = begin;
  ends[named] = end;
  return slice(x, begins, ends);
}

Tensor flip(const Tensor& x, const Ints& axes) {
  return apply_one(flip_op(), {x}, Attrs::of(FlipAttrs{axes}));
}

Tensor stop_gradient(const Tensor& x) {
  return apply_one(stop_gradient_op(), {x}, Attrs::of(StopGradientAttrs{}));
}

namespace families {

Family shape() {
  return {&reshape_op(),
          &transpose_op(),
          &expand_op(),
          &squeeze_op(),
          &expand_dims_op(),
          &slice_op(),
          &slice_backward_op(),
          &flip_op(),
          &stop_gradient_op(),
          &detail::concat_op(),
          &detail::split_op(),
          &detail::pad_op(),
          &detail::pad_backward_op(),
          &detail::roll_op(),
          &detail::tile_op(),
          &detail::repeat_op()};
}

}  // namespace families
}  // namespace lockstep
