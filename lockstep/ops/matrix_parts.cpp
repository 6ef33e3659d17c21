// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/matrix_parts.h"

#include <algorithm>
#include <cstring>

#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/matrix_parts_attrs.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/view.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

Infos infer_triangle(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  if (x.shape.rank() < 2)
    throw InvalidArgument("{}: input has shape {}, expected at least 2 axes", args.op,
                          x.shape.str());
  return {x};
}

std::vector<Tensor> tril_gradient(const GradientArgs& args) {
  return {tril(args.grad(), args.attrs.as<TriangleAttrs>().diagonal)};
}

std::vector<Tensor> triu_gradient(const GradientArgs& args) {
  return {triu(args.grad(), args.attrs.as<TriangleAttrs>().diagonal)};
}

// Copies of each row what is on the kept side; the rest is zero, which is zero bytes in every
// dtype.
template <bool lower>
void run_triangle(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const int rank = x.shape.rank();
  const std::int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1];
  const std::int64_t diagonal = std::clamp(call.attrs.as<TriangleAttrs>().diagonal, -rows, columns);
  const auto item = static_cast<std::int64_t>(item_size(x.dtype));
  const std::byte* from = x.data;
  std::byte* to = call.outputs[0].data;
  std::memset(to, 0, static_cast<std::size_t>(x.numel() * item));
  const std::int64_t lines = columns == 0 ? 0 : x.numel() / columns;
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t row = line % rows;
    const std::int64_t first = lower ? 0 : std::clamp<std::int64_t>(row + diagonal, 0, columns);
    const std::int64_t end =
        lower ? std::clamp<std::int64_t>(row + diagonal + 1, 0, columns) : columns;
    const std::int64_t at = (line * columns + first) * item;
    std::memcpy(to + at, from + at, static_cast<std::size_t>((end - first) * item));
  }
}

// The window on the diagonal; A is DiagonalAttrs or DiagonalBackwardAttrs.
template <class A>
ViewSpec diagonal_window(const char* op, const Shape& shape, const Strides& strides, const A& a) {
  const int rank = shape.rank();
  const int rows = normalize_axis(op, a.axis1, rank), columns = normalize_axis(op, a.axis2, rank);
  if (rows == columns)
    throw InvalidArgument("{}: axes {} and {} are the same one", op, a.axis1, a.axis2);
  const std::int64_t offset = std::clamp(a.offset, -shape[rows], shape[columns]);
  const std::int64_t below = std::max<std::int64_t>(-offset, 0);
  const std::int64_t right = std::max<std::int64_t>(offset, 0);
  const std::int64_t length = std::min(shape[rows] - below, shape[columns] - right);
  ViewSpec spec;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis == rows || axis == columns) continue;
    spec.shape.push_back(shape[axis]);
    spec.strides.push_back(strides[axis]);
  }
  spec.shape.push_back(length);
  const bool is_empty = spec.shape.numel() == 0;  // strides of nothing are as large as they like
  spec.strides.push_back(is_empty ? 0 : strides[rows] + strides[columns]);
  if (!is_empty) spec.offset = below * strides[rows] + right * strides[columns];
  return spec;
}

std::optional<ViewSpec> view_diagonal(const TensorInfo& x, const Strides& strides,
                                      const Attrs& attrs) {
  return diagonal_window("diagonal", x.shape, strides, attrs.as<DiagonalAttrs>());
}

Infos infer_diagonal(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  return {{view_diagonal(x, contiguous_strides(x.shape), args.attrs)->shape, x.dtype, x.device}};
}

const OpDef& diagonal_backward_op();

std::vector<Tensor> diagonal_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<DiagonalAttrs>();
  return {apply_one(diagonal_backward_op(), {args.grad()},
                    Attrs::of(DiagonalBackwardAttrs{args.inputs[0].shape().vector(), a.offset,
                                                    a.axis1, a.axis2}))};
}

Infos infer_diagonal_backward(const InferArgs& args) {
  const auto& a = args.attrs.as<DiagonalBackwardAttrs>();
  const TensorInfo& grad = args.inputs[0];
  const Shape shape = detail::checked_shape(args.op, Shape(a.shape));
  const Shape expected = diagonal_window(args.op, shape, contiguous_strides(shape), a).shape;
  if (!(grad.shape == expected))
    throw InvalidArgument("{}: the gradient has shape {}, the diagonal has {}", args.op,
                          grad.shape.str(), expected.str());
  return {{shape, grad.dtype, grad.device}};
}

std::vector<Tensor> diagonal_backward_gradient(const GradientArgs& args) {
  const auto& a = args.attrs.as<DiagonalBackwardAttrs>();
  return {diagonal(args.grad(), a.offset, a.axis1, a.axis2)};
}

void run_diagonal_backward(const KernelCall& call) {
  const TensorView& grad = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const auto item = static_cast<std::int64_t>(item_size(out.dtype));
  const ViewSpec spec = diagonal_window("diagonal_backward", out.shape, out.strides,
                                        call.attrs.as<DiagonalBackwardAttrs>());
  std::memset(out.data, 0, static_cast<std::size_t>(out.numel() * item));
  copy_strided(grad.shape, {grad.data, grad.strides, grad.dtype},
               {out.data + spec.offset * item, spec.strides, out.dtype});
}

constexpr ArgumentDoc kMatrices[] = {{"x", "[..., rows, columns]"}};
constexpr ArgumentDoc kTriangle[] = {{"y", "of x's shape"}};
constexpr ArgumentDoc kAny[] = {{"x", "any tensor of 2 axes or more"}};
constexpr ArgumentDoc kDiagonal[] = {
    {"y", "x's shape without the two axes, then the diagonal: a window on x's memory"}};
constexpr ArgumentDoc kDiagonalGrad[] = {{"grad", "the diagonal's gradient"}};
constexpr ArgumentDoc kDiagonalGradOutput[] = {{"grad_x", "of the given shape"}};
constexpr OpDocs kTrilDocs{"The elements on and below a diagonal, zeros elsewhere.", kMatrices,
                           kTriangle};
constexpr OpDocs kTriuDocs{"The elements on and above a diagonal, zeros elsewhere.", kMatrices,
                           kTriangle};
constexpr OpDocs kDiagonalDocs{"A diagonal along two axes, as a new last axis.", kAny, kDiagonal};
constexpr OpDocs kDiagonalBackwardDocs{
    "diagonal's gradient: zeros, with grad where the diagonal was.", kDiagonalGrad,
    kDiagonalGradOutput};
constexpr KernelCandidate kTrilKernels[] = {
    {.name = "copy rows", .dtypes = kAllTypes, .direct = run_triangle<true>}};
constexpr KernelCandidate kTriuKernels[] = {
    {.name = "copy rows", .dtypes = kAllTypes, .direct = run_triangle<false>}};
constexpr KernelCandidate kDiagonalKernels[] = {{.name = "copy",
                                                 .dtypes = kAllTypes,
                                                 .direct = &copy_view<view_diagonal>,
                                                 .strided_inputs = true}};
constexpr KernelCandidate kDiagonalBackwardKernels[] = {
    {.name = "copy", .dtypes = kAllTypes, .direct = run_diagonal_backward, .strided_inputs = true}};

const OpDef& tril_op() {
  static const OpDef op{.name = "tril",
                        .docs = kTrilDocs,
                        .schema = attr_schema<TriangleAttrs>(),
                        .infer = infer_triangle,
                        .gradient = tril_gradient,
                        .cpu = kTrilKernels};
  return op;
}

const OpDef& triu_op() {
  static const OpDef op{.name = "triu",
                        .docs = kTriuDocs,
                        .schema = attr_schema<TriangleAttrs>(),
                        .infer = infer_triangle,
                        .gradient = triu_gradient,
                        .cpu = kTriuKernels};
  return op;
}

const OpDef& diagonal_op() {
  static const OpDef op{.name = "diagonal",
                        .docs = kDiagonalDocs,
                        .kind = OpKind::view,
                        .schema = attr_schema<DiagonalAttrs>(),
                        .infer = infer_diagonal,
                        .gradient = diagonal_gradient,
                        .view = view_diagonal,
                        .cpu = kDiagonalKernels};
  return op;
}

const OpDef& diagonal_backward_op() {
  static const OpDef op{.name = "diagonal_backward",
                        .docs = kDiagonalBackwardDocs,
                        .schema = attr_schema<DiagonalBackwardAttrs>(),
                        .infer = infer_diagonal_backward,
                        .gradient = diagonal_backward_gradient,
                        .cpu = kDiagonalBackwardKernels};
  return op;
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return apply_one(tril_op(), {x}, Attrs::of(TriangleAttrs{diagonal}));
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return apply_one(triu_op(), {x}, Attrs::of(TriangleAttrs{diagonal}));
}

Tensor diagonal(const Tensor& x, std::int64_t offset, int axis1, int axis2) {
  return apply_one(diagonal_op(), {x}, Attrs::of(DiagonalAttrs{offset, axis1, axis2}));
}

Tensor diag_embed(const Tensor& x, std::int64_t offset) {
  detail::check_defined("diag_embed", x);
  if (x.rank() == 0) throw InvalidArgument("diag_embed: a scalar is no vector");
  constexpr std::int64_t kFarthest = std::int64_t{1} << 31;
  if (offset < -kFarthest || offset > kFarthest)
    throw InvalidArgument("diag_embed: offset is {}", offset);
  Shape shape = x.shape();
  shape[x.rank() - 1] += offset < 0 ? -offset : offset;
  shape.push_back(shape.back());
  return detail::named("diag_embed", [&] {
    return apply_one(diagonal_backward_op(), {x},
                     Attrs::of(DiagonalBackwardAttrs{shape.vector(), offset}));
  });
}

Tensor diag(const Tensor& x, std::int64_t offset) {
  detail::check_defined("diag", x);
  if (x.rank() != 1 && x.rank() != 2)
    throw InvalidArgument("diag: input has shape {}, expected a vector or a matrix",
                          x.shape().str());
  return detail::named("diag",
                       [&] { return x.rank() == 1 ? diag_embed(x, offset) : diagonal(x, offset); });
}

namespace families {

Family matrix_parts() { return {&tril_op(), &triu_op(), &diagonal_op(), &diagonal_backward_op()}; }

}  // namespace families
}  // namespace lockstep
