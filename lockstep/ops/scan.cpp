// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/reduce.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/detail/reduce_defs.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/reduce_attrs.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep {
namespace {

Infos infer_cumprod(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  normalize_axis(args.op, args.attrs.as<ScanAttrs>().axis, x.shape.rank());
  return {{x.shape, is_floating(x.dtype) ? x.dtype : DType::int64, x.device}};
}

Infos infer_linear_scan(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  const TensorInfo& b = args.inputs[1];
  if (!(a.shape == b.shape) || a.dtype != b.dtype)
    throw InvalidArgument("{}: a is {}, b is {}, expected the same of both", args.op, a.str(),
                          b.str());
  if (!is_floating(a.dtype))
    throw InvalidArgument("{}: got {}, expected a floating dtype", args.op, name_of(a.dtype));
  normalize_axis(args.op, args.attrs.as<ScanAttrs>().axis, a.shape.rank());
  return {a};
}

// Each place of a scan's direction gets what stands before it, the first one `first`.
Tensor from_before(const Tensor& x, const ScanAttrs& attrs, double first) {
  const int axis = normalize_axis("scan", attrs.axis, x.rank());
  const std::int64_t size = x.shape()[axis];
  if (size == 0) return x;
  Shape one = x.shape();
  one[axis] = 1;
  const Tensor edge = full(one, first, x.dtype(), x.device());
  if (attrs.reverse) return concat({slice_axis(x, axis, 1, size), edge}, axis);
  return concat({edge, slice_axis(x, axis, 0, size - 1)}, axis);
}

Tensor from_behind(const Tensor& x, const ScanAttrs& attrs, double last) {
  return from_before(x, {attrs.axis, !attrs.reverse}, last);
}

// s[t] = g[t] + a[t + 1] s[t + 1]: what reaches place t from all places behind it.
Tensor sum_from_behind(const Tensor& a, const Tensor& g, const ScanAttrs& attrs) {
  return linear_scan(from_behind(a, attrs, 0.0), g, attrs.axis, !attrs.reverse);
}

// The product before a place, times what the factors behind it make of the gradients there. Nothing
// is divided, so zeros are as good as other numbers, to every order.
std::vector<Tensor> cumprod_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ScanAttrs>();
  return {multiply(from_before(args.outputs[0], attrs, 1.0),
                   sum_from_behind(args.inputs[0], args.grad(), attrs))};
}

std::vector<Tensor> linear_scan_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ScanAttrs>();
  const Tensor reached = sum_from_behind(args.inputs[0], args.grad(), attrs);
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0)) grads[0] = multiply(reached, from_before(args.outputs[0], attrs, 0.0));
  if (args.needs_grad(1)) grads[1] = reached;
  return grads;
}

constexpr ArgumentDoc kFactors[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kProducts[] = {{"y", "the running products, of x's shape"}};
constexpr ArgumentDoc kScanned[] = {
    {"a", "floating; its first element along the axis does not count"},
    {"b", "of a's shape and dtype"}};
constexpr ArgumentDoc kScan[] = {{"y", "of a's shape"}};
constexpr OpDocs kCumprodDocs{
    "Each element multiplied with all before it along an axis; integers in int64.", kFactors,
    kProducts};
constexpr OpDocs kLinearScanDocs{
    "The linear recurrence y[t] = a[t] y[t - 1] + b[t] along an axis, y[0] = b[0].", kScanned,
    kScan};

}  // namespace

namespace detail {

const OpDef& cumprod_op() {
  static const OpDef op{.name = "cumprod",
                        .docs = kCumprodDocs,
                        .schema = attr_schema<ScanAttrs>(),
                        .infer = infer_cumprod,
                        .gradient = cumprod_gradient,
                        .cpu = kernels::cumprod_kernels()};
  return op;
}

const OpDef& linear_scan_op() {
  static const OpDef op{.name = "linear_scan",
                        .docs = kLinearScanDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<ScanAttrs>(),
                        .promotion = Promotion::floating,
                        .infer = infer_linear_scan,
                        .gradient = linear_scan_gradient,
                        .cpu = kernels::linear_scan_kernels()};
  return op;
}

}  // namespace detail

Tensor cumprod(const Tensor& x, int axis, bool reverse) {
  return apply_one(detail::cumprod_op(), {x}, Attrs::of(ScanAttrs{axis, reverse}));
}

Tensor linear_scan(const Tensor& a, const Tensor& b, int axis, bool reverse) {
  return apply_one_promoted(detail::linear_scan_op(), {a, b}, Attrs::of(ScanAttrs{axis, reverse}));
}

}  // namespace lockstep
