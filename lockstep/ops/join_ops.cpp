// SPDX-License-Identifier: Apache-2.0
// The members of the shape family that always copy.
#include <algorithm>

#include "lockstep/ops/cpu/shape_ops.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/detail/shape_defs.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace detail {
namespace {

std::int64_t product(const Shape& shape, int first, int last) {
  std::int64_t result = 1;
  for (int i = first; i < last; ++i) result *= shape[i];
  return result;
}

Infos infer_concat(const InferArgs& args) {
  TensorInfo joined = args.inputs[0];
  const int rank = joined.shape.rank();
  if (rank == 0) throw InvalidArgument("{}: scalars have no axis to join along", args.op);
  const int axis = normalize_axis(args.op, args.attrs.as<ConcatAttrs>().axis, rank);
  joined.shape[axis] = 0;
  for (const TensorInfo& part : args.inputs) {
    if (part.dtype != joined.dtype)
      throw InvalidArgument("{}: parts are {} and {}", args.op, name_of(joined.dtype),
                            name_of(part.dtype));
    Shape rest = part.shape;
    if (rest.rank() == rank) rest[axis] = joined.shape[axis];
    if (!(rest == joined.shape))
      throw InvalidArgument("{}: parts have shapes {} and {}, they may differ along axis {} only",
                            args.op, args.inputs[0].shape.str(), part.shape.str(), axis);
    joined.shape[axis] = checked_sum(args.op, joined.shape[axis], part.shape[axis]);
  }
  checked_shape(args.op, joined.shape);
  return {joined};
}

std::vector<Tensor> concat_gradient(const GradientArgs& args) {
  const int rank = args.inputs[0].rank();
  const int axis = normalize_axis("concat", args.attrs.as<ConcatAttrs>().axis, rank);
  std::vector<Tensor> grads(args.inputs.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::int64_t end = start + args.inputs[i].shape()[axis];
    if (args.needs_grad(i)) grads[i] = slice_axis(args.grad(), axis, start, end);
    start = end;
  }
  return grads;
}

Infos infer_split(const InferArgs& args) {
  const auto& a = args.attrs.as<SplitAttrs>();
  const TensorInfo& x = args.inputs[0];
  const int axis = normalize_axis(args.op, a.axis, x.shape.rank());
  std::int64_t total = 0;
  Infos parts;
  for (std::int64_t size : a.sizes) {
    if (size < 0) throw InvalidArgument("{}: size {} is negative", args.op, size);
    parts.push_back(x);
    parts.back().shape[axis] = size;
    total = checked_sum(args.op, total, size);
  }
  if (parts.empty()) throw InvalidArgument("{}: no sizes are given", args.op);
  if (total != x.shape[axis])
    throw InvalidArgument("{}: sizes {} add up to {}, axis {} has size {}", args.op,
                          to_string(AttrValue(a.sizes)), total, axis, x.shape[axis]);
  return parts;
}

std::vector<Tensor> split_gradient(const GradientArgs& args) {
  std::vector<Tensor> grads;
  for (std::size_t i = 0; i < args.outputs.size(); ++i)
    grads.push_back(args.output_grads[i] ? args.output_grads[i] : zeros_like(args.outputs[i]));
  return {concat(grads, args.attrs.as<SplitAttrs>().axis)};
}

void check_pad(const char* op, const Shape& inner, const Ints& widths, const std::string& mode) {
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "circular")
    throw InvalidArgument("{}: mode '{}' is not constant, edge, reflect or circular", op, mode);
  if (static_cast<int>(widths.size()) != 2 * inner.rank())
    throw InvalidArgument("{}: {} widths, shape {} needs {}", op, widths.size(), inner.str(),
                          2 * inner.rank());
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 0) throw InvalidArgument("{}: width {} is negative", op, widths[i]);
    const int axis = static_cast<int>(i) / 2;
    const std::int64_t most = inner[axis] - 1;
    if (mode == "reflect" && widths[i] > std::max<std::int64_t>(most, 0))
      throw InvalidArgument("{}: reflecting {} elements needs more than axis {} of size {} has", op,
                            widths[i], axis, inner[axis]);
    if (mode == "circular" && widths[i] > inner[axis])
      throw InvalidArgument("{}: {} elements of the other end, axis {} of size {} has fewer", op,
                            widths[i], axis, inner[axis]);
    if (mode == "edge" && widths[i] > 0 && inner[axis] == 0)
      throw InvalidArgument("{}: axis {} of size 0 has no edge", op, axis);
  }
}

Infos infer_pad(const InferArgs& args) {
  const auto& a = args.attrs.as<PadAttrs>();
  TensorInfo padded = args.inputs[0];
  check_pad(args.op, padded.shape, a.widths, a.mode);
  for (int i = 0; i < padded.shape.rank(); ++i)
    for (int side : {0, 1})
      padded.shape[i] =
          checked_sum(args.op, padded.shape[i], a.widths[static_cast<std::size_t>(2 * i + side)]);
  checked_shape(args.op, padded.shape);
  return {padded};
}

std::vector<Tensor> pad_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<PadAttrs>();
  if (a.mode != "constant")
    return {
        apply_one(pad_backward_op(), {args.grad()}, Attrs::of(PadBackwardAttrs{a.widths, a.mode}))};
  Ints begin, end;
  for (int i = 0; i < args.inputs[0].rank(); ++i) {
    begin.push_back(a.widths[static_cast<std::size_t>(2 * i)]);
    end.push_back(begin.back() + args.inputs[0].shape()[i]);
  }
  return {slice(args.grad(), begin, end)};
}

Infos infer_pad_backward(const InferArgs& args) {
  const auto& a = args.attrs.as<PadBackwardAttrs>();
  TensorInfo inner = args.inputs[0];
  const int rank = inner.shape.rank();
  if (static_cast<int>(a.widths.size()) == 2 * rank)
    for (int i = 0; i < rank; ++i)
      for (int side : {0, 1}) {
        const std::int64_t width = a.widths[static_cast<std::size_t>(2 * i + side)];
        inner.shape[i] -= std::clamp<std::int64_t>(width, 0, inner.shape[i] + 1);
      }
  for (std::int64_t d : inner.shape)
    if (d < 0)
      throw InvalidArgument("{}: gradient {} is smaller than its padding", args.op,
                            args.inputs[0].shape.str());
  check_pad(args.op, inner.shape, a.widths, a.mode);
  if (!is_floating(inner.dtype))
    throw InvalidArgument("{}: a gradient cannot be {}", args.op, name_of(inner.dtype));
  return {inner};
}

std::vector<Tensor> pad_backward_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<PadBackwardAttrs>();
  return {pad(args.grad(), a.widths, 0.0, a.mode)};
}

Infos infer_tile(const InferArgs& args) {
  const Ints& repeats = args.attrs.as<TileAttrs>().repeats;
  TensorInfo tiled = args.inputs[0];
  while (tiled.shape.rank() < static_cast<int>(repeats.size())) tiled.shape.insert(0, 1);
  const int lead = tiled.shape.rank() - static_cast<int>(repeats.size());
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0) throw InvalidArgument("{}: {} repeats", args.op, repeats[i]);
    std::int64_t& size = tiled.shape[lead + static_cast<int>(i)];
    size = checked_product(args.op, size, repeats[i]);
  }
  checked_shape(args.op, tiled.shape);
  return {tiled};
}

// Sums over the copies, one axis at a time, so that no shape has more than four axes.
std::vector<Tensor> tile_gradient(const GradientArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  Shape left = args.grad().shape();
  Tensor grad = args.grad();
  const int lead = left.rank() - shape.rank();
  for (int i = 0; i < left.rank(); ++i) {
    const std::int64_t size = i < lead ? 1 : shape[i - lead];
    if (left[i] == size) continue;
    const std::int64_t copies = size == 0 ? 0 : left[i] / size;
    const std::int64_t outer = product(left, 0, i);
    const std::int64_t inner = product(left, i + 1, left.rank());
    grad = sum(reshape(grad, {outer, copies, size, inner}), {1});
    left[i] = size;
  }
  return {reshape(grad, shape.vector())};
}

Infos infer_repeat(const InferArgs& args) {
  const auto& a = args.attrs.as<RepeatAttrs>();
  if (a.repeats < 0) throw InvalidArgument("{}: {} repeats", args.op, a.repeats);
  TensorInfo repeated = args.inputs[0];
  std::int64_t& size = repeated.shape[normalize_axis(args.op, a.axis, repeated.shape.rank())];
  size = checked_product(args.op, size, a.repeats);
  checked_shape(args.op, repeated.shape);
  return {repeated};
}

std::vector<Tensor> repeat_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<RepeatAttrs>();
  const Shape& shape = args.inputs[0].shape();
  const int axis = normalize_axis("repeat", a.axis, shape.rank());
  const Tensor parts = reshape(args.grad(), {product(shape, 0, axis), shape[axis], a.repeats,
                                             product(shape, axis + 1, shape.rank())});
  return {reshape(sum(parts, {2}), shape.vector())};
}

}  // namespace

constexpr ArgumentDoc kParts[] = {
    {"parts", "of one dtype, and one shape but for the axis", Presence::repeated}};
constexpr ArgumentDoc kJoined[] = {{"y", "the parts' sizes along the axis added up"}};
constexpr ArgumentDoc kWhole[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kCut[] = {{"parts", "one for each of sizes", Presence::repeated}};
constexpr ArgumentDoc kPadded[] = {{"y", "x, larger by the widths"}};
constexpr ArgumentDoc kPadGrad[] = {{"grad", "the padded tensor's gradient"}};
constexpr ArgumentDoc kPadGradOutput[] = {{"grad_x", "smaller by the widths"}};
constexpr ArgumentDoc kCopied[] = {{"y", "the copies"}};
constexpr OpDocs kConcatDocs{"Tensors one after another along an axis.", kParts, kJoined};
constexpr OpDocs kSplitDocs{"Cuts a tensor along an axis into parts of given sizes.", kWhole, kCut};
constexpr OpDocs kPadDocs{"Adds elements before and after each axis.", kWhole, kPadded};
constexpr OpDocs kPadBackwardDocs{"pad's gradient for the modes that read x more than once.",
                                  kPadGrad, kPadGradOutput};
constexpr OpDocs kTileDocs{"Copies of the whole tensor, one after another along each axis.", kWhole,
                           kCopied};
constexpr OpDocs kRepeatDocs{"Each element several times, its copies side by side along an axis.",
                             kWhole, kCopied};

const OpDef& concat_op() {
  static const OpDef op{.name = "concat",
                        .docs = kConcatDocs,
                        .max_inputs = -1,
                        .schema = attr_schema<ConcatAttrs>(),
                        .infer = infer_concat,
                        .gradient = concat_gradient,
                        .cpu = kernels::concat()};
  return op;
}

const OpDef& split_op() {
  static const OpDef op{.name = "split",
                        .docs = kSplitDocs,
                        .schema = attr_schema<SplitAttrs>(),
                        .infer = infer_split,
                        .gradient = split_gradient,
                        .cpu = kernels::split()};
  return op;
}

const OpDef& pad_op() {
  static const OpDef op{.name = "pad",
                        .docs = kPadDocs,
                        .schema = attr_schema<PadAttrs>(),
                        .infer = infer_pad,
                        .gradient = pad_gradient,
                        .cpu = kernels::pad()};
  return op;
}

const OpDef& pad_backward_op() {
  static const OpDef op{.name = "pad_backward",
                        .docs = kPadBackwardDocs,
                        .schema = attr_schema<PadBackwardAttrs>(),
                        .infer = infer_pad_backward,
                        .gradient = pad_backward_gradient,
                        .cpu = kernels::pad_backward()};
  return op;
}

const OpDef& tile_op() {
  static const OpDef op{.name = "tile",
                        .docs = kTileDocs,
                        .schema = attr_schema<TileAttrs>(),
                        .infer = infer_tile,
                        .gradient = tile_gradient,
                        .cpu = kernels::tile()};
  return op;
}

const OpDef& repeat_op() {
  static const OpDef op{.name = "repeat",
                        .docs = kRepeatDocs,
                        .schema = attr_schema<RepeatAttrs>(),
                        .infer = infer_repeat,
                        .gradient = repeat_gradient,
                        .cpu = kernels::repeat()};
  return op;
}

}  // namespace detail

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  return apply(detail::concat_op(), parts, Attrs::of(ConcatAttrs{axis}))[0];
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    detail::check_defined("stack", parts[i], i);
    if (!(parts[i].shape() == parts[0].shape()))
      throw InvalidArgument("stack: parts have shapes {} and {}", parts[0].shape().str(),
                            parts[i].shape().str());
  }
  return detail::named("stack", [&] {
    std::vector<Tensor> raised;
    for (const Tensor& part : parts) raised.push_back(expand_dims(part, axis));
    return concat(raised, axis);
  });
}

std::vector<Tensor> split(const Tensor& x, int parts, int axis) {
  detail::check_defined("split", x);
  const std::int64_t size = x.shape()[normalize_axis("split", axis, x.rank())];
  if (parts <= 0 || size % parts != 0)
    throw InvalidArgument("split: axis {} of size {} does not split into {} equal parts", axis,
                          size, parts);
  return split_sizes(x, Ints(static_cast<std::size_t>(parts), size / parts), axis);
}

std::vector<Tensor> split_sizes(const Tensor& x, const Ints& sizes, int axis) {
  return apply(detail::split_op(), std::span(&x, 1), Attrs::of(SplitAttrs{sizes, axis}));
}

Tensor pad(const Tensor& x, const Ints& widths, double value, const std::string& mode) {
  return apply_one(detail::pad_op(), {x}, Attrs::of(PadAttrs{widths, value, mode}));
}

Tensor tile(const Tensor& x, const Ints& repeats) {
  return apply_one(detail::tile_op(), {x}, Attrs::of(TileAttrs{repeats}));
}

Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<int> axis) {
  detail::check_defined("repeat", x);
  if (!axis) return repeat(reshape(x, {x.numel()}), repeats, 0);
  return apply_one(detail::repeat_op(), {x}, Attrs::of(RepeatAttrs{repeats, *axis}));
}

}  // namespace lockstep
