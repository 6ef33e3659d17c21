// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reduce.h"

#include <algorithm>

#include "lockstep/ops/cpu/reduce.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/detail/reduce_defs.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/reduce_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

Shape reduced_shape(const char* op, const Shape& shape, const Ints& axes, bool keepdims) {
  const std::vector<int> list = normalize_axes(op, axes, shape.rank());
  Shape result = shape;
  for (auto axis = list.rbegin(); axis != list.rend(); ++axis) {
    if (keepdims)
      result[*axis] = 1;
    else
      result.erase(*axis);
  }
  return result;
}

std::int64_t reduced_count(const Shape& shape, const Ints& axes) {
  std::int64_t count = 1;
  for (int axis : normalize_axes("reduce", axes, shape.rank())) count *= shape[axis];
  return count;
}

void check_not_empty(const char* op, const Shape& shape, const Ints& axes) {
  for (int axis : normalize_axes(op, axes, shape.rank()))
    if (shape[axis] == 0)
      throw InvalidArgument("{}: axis {} of shape {} has no elements", op, axis, shape.str());
}

void check_floating(const InferArgs& args) {
  if (!is_floating(args.inputs[0].dtype))
    throw InvalidArgument("{}: input is {}, expected a floating dtype", args.op,
                          args.inputs[0].str());
}

Infos reduced(const InferArgs& args, const Ints& axes, bool keepdims, DType dtype) {
  const TensorInfo& x = args.inputs[0];
  return {{reduced_shape(args.op, x.shape, axes, keepdims), dtype, x.device}};
}

// Integers are added up in int64, as in NumPy.
DType total_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::int64; }
DType mean_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::float32; }

Infos infer_total(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  return reduced(args, attrs.axes, attrs.keepdims, total_dtype(args.inputs[0].dtype));
}

Infos infer_mean(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  return reduced(args, attrs.axes, attrs.keepdims, mean_dtype(args.inputs[0].dtype));
}

Infos infer_extreme(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  Infos infos = reduced(args, attrs.axes, attrs.keepdims, args.inputs[0].dtype);
  check_not_empty(args.op, args.inputs[0].shape, attrs.axes);
  return infos;
}

Infos infer_var(const InferArgs& args) {
  check_floating(args);
  const auto& attrs = args.attrs.as<VarAttrs>();
  if (attrs.ddof < 0)
    throw InvalidArgument("{}: ddof is {}, expected 0 or more", args.op, attrs.ddof);
  return reduced(args, attrs.axes, attrs.keepdims, args.inputs[0].dtype);
}

Infos infer_truth(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  if (args.inputs[0].dtype != DType::boolean)
    throw InvalidArgument("{}: got {}, expected bool", args.op, name_of(args.inputs[0].dtype));
  return reduced(args, attrs.axes, attrs.keepdims, DType::boolean);
}

Infos infer_norm(const InferArgs& args) {
  check_floating(args);
  const auto& attrs = args.attrs.as<NormAttrs>();
  if (attrs.ord != 1 && attrs.ord != 2)
    throw InvalidArgument("norm: ord is {}, expected 1 or 2", attrs.ord);
  return reduced(args, attrs.axes, attrs.keepdims, args.inputs[0].dtype);
}

Infos infer_logsumexp(const InferArgs& args) {
  check_floating(args);
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  return reduced(args, attrs.axes, attrs.keepdims, args.inputs[0].dtype);
}

Infos infer_arg(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ArgAttrs>();
  const Ints axes{attrs.axis};
  Infos infos = reduced(args, axes, attrs.keepdims, DType::int64);
  check_not_empty(args.op, args.inputs[0].shape, axes);
  return infos;
}

Infos infer_cumsum(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  normalize_axis(args.op, args.attrs.as<CumsumAttrs>().axis, x.shape.rank());
  return {{x.shape, total_dtype(x.dtype), x.device}};
}

// A reduced tensor with its axes back at size 1, so that it broadcasts against x.
Tensor keep_axes(const Tensor& y, const Tensor& x, const Ints& axes) {
  return reshape(y, reduced_shape("reduce", x.shape(), axes, true).vector());
}

std::vector<Tensor> sum_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  const Tensor& x = args.inputs[0];
  return {expand(keep_axes(args.grad(), x, attrs.axes), x.shape())};
}

std::vector<Tensor> mean_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  const Tensor& x = args.inputs[0];
  const double count = static_cast<double>(reduced_count(x.shape(), attrs.axes));
  return {expand(keep_axes(multiply(args.grad(), 1.0 / count), x, attrs.axes), x.shape())};
}

// Of x [rows, n], for each element the product of the others in its row: of its neighbour and of
// all the other pairs, which is the same question with half as many elements. Nothing is divided,
// so zeros are as good as other numbers, to every order.
Tensor product_of_others(const Tensor& x) {
  const std::int64_t rows = x.shape(0), n = x.shape(1), pairs = (n + 1) / 2;
  const Tensor one = ones_like(slice_axis(x, 1, 0, 1));
  if (n == 1) return one;
  const Tensor paired = reshape(n % 2 == 0 ? x : concat({x, one}, 1), {rows, pairs, 2});
  const Tensor left = slice_axis(paired, 2, 0, 1), right = slice_axis(paired, 2, 1, 2);
  const Tensor rest = product_of_others(reshape(multiply(left, right), {rows, pairs}));
  const Tensor others = multiply(concat({right, left}, 2), expand_dims(rest, 2));
  return slice_axis(reshape(others, {rows, 2 * pairs}), 1, 0, n);
}

// The axes that stay, then those that are reduced.
Ints reduced_last(const Shape& shape, const Ints& axes) {
  const std::vector<int> list = normalize_axes("prod", axes, shape.rank());
  Ints order;
  for (int i = 0; i < shape.rank(); ++i)
    if (std::find(list.begin(), list.end(), i) == list.end()) order.push_back(i);
  order.insert(order.end(), list.begin(), list.end());
  return order;
}

Ints inverse_of(const Ints& order) {
  Ints inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

std::vector<Tensor> prod_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  const Tensor& x = args.inputs[0];
  if (x.numel() == 0) return {zeros_like(x)};
  const Ints order = reduced_last(x.shape(), attrs.axes);
  const Tensor moved = transpose(x, order);
  const std::int64_t count = reduced_count(x.shape(), attrs.axes);
  const Tensor others = product_of_others(reshape(moved, {x.numel() / count, count}));
  const Tensor back = transpose(reshape(others, moved.shape().vector()), inverse_of(order));
  return {multiply(keep_axes(args.grad(), x, attrs.axes), back)};
}

// Equal extremes share the gradient equally.
std::vector<Tensor> extreme_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor y = keep_axes(args.outputs[0], x, attrs.axes);
  const Tensor hit = cast(equal(x, y), x.dtype());
  const Tensor share = divide(keep_axes(args.grad(), x, attrs.axes), sum(hit, attrs.axes, true));
  return {multiply(hit, share)};
}

std::vector<Tensor> var_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<VarAttrs>();
  const Tensor& x = args.inputs[0];
  const auto count = static_cast<double>(reduced_count(x.shape(), attrs.axes));
  const Tensor distance = subtract(x, mean(x, attrs.axes, true));
  const Tensor scaled = multiply(args.grad(), 2.0 / std::max(0.0, count - attrs.ddof));
  return {multiply(keep_axes(scaled, x, attrs.axes), distance)};
}

// Half of var's gradient over the deviation, and 0 where that is 0.
std::vector<Tensor> stddev_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<VarAttrs>();
  const Tensor& x = args.inputs[0];
  const auto count = static_cast<double>(reduced_count(x.shape(), attrs.axes));
  const Tensor y = keep_axes(args.outputs[0], x, attrs.axes);
  const Tensor divisor = add(y, cast(equal(y, 0.0), y.dtype()));
  const Tensor scaled = multiply(args.grad(), 1.0 / std::max(0.0, count - attrs.ddof));
  const Tensor distance = subtract(x, mean(x, attrs.axes, true));
  return {multiply(divide(keep_axes(scaled, x, attrs.axes), divisor), distance)};
}

// x / |x|, and 0 where the norm is 0.
std::vector<Tensor> norm_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<NormAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor grad = keep_axes(args.grad(), x, attrs.axes);
  if (attrs.ord == 1) return {multiply(grad, sign(x))};
  const Tensor y = keep_axes(args.outputs[0], x, attrs.axes);
  const Tensor divisor = add(y, cast(equal(y, 0.0), y.dtype()));
  return {multiply(x, divide(grad, divisor))};
}

std::vector<Tensor> logsumexp_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ReduceAttrs>();
  const Tensor& x = args.inputs[0];
  if (x.numel() == 0) return {zeros_like(x)};
  // Distances from the largest, not from the result, which keeps few digits of them where it is
  // large.
  const Tensor e = exp(subtract(x, max(x, attrs.axes, true)));
  const Tensor share = divide(e, sum(e, attrs.axes, true));
  return {multiply(keep_axes(args.grad(), x, attrs.axes), share)};
}

std::vector<Tensor> cumsum_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<CumsumAttrs>();
  return {cumsum(args.grad(), attrs.axis, !attrs.reverse)};
}

constexpr ArgumentDoc kReduced[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kReducedOutput[] = {
    {"y", "one value for each position along the other axes"}};
constexpr ArgumentDoc kPositions[] = {{"y", "int64, one for each position along the other axes"}};
constexpr ArgumentDoc kRunning[] = {{"y", "the running sums, of x's shape"}};
constexpr OpDocs kSumDocs{"Adds the elements along the axes up; integers and bool in int64.",
                          kReduced, kReducedOutput};
constexpr OpDocs kMeanDocs{"The arithmetic mean along the axes; float32 for integers and bool.",
                           kReduced, kReducedOutput};
constexpr OpDocs kProdDocs{"Multiplies the elements along the axes; integers and bool in int64.",
                           kReduced, kReducedOutput};
constexpr OpDocs kMaxDocs{"The largest element along the axes; NaN where there is one.", kReduced,
                          kReducedOutput};
constexpr OpDocs kMinDocs{"The smallest element along the axes; NaN where there is one.", kReduced,
                          kReducedOutput};
constexpr OpDocs kVarDocs{"The variance along the axes: the mean square distance from the mean.",
                          kReduced, kReducedOutput};
constexpr OpDocs kStddevDocs{"The standard deviation along the axes: the square root of var.",
                             kReduced, kReducedOutput};
constexpr OpDocs kAnyDocs{
    "Whether some element along the axes is true, which every number but 0 is; of none, false.",
    kReduced, kReducedOutput};
constexpr OpDocs kAllDocs{
    "Whether every element along the axes is true, which every number but 0 is; of none, true.",
    kReduced, kReducedOutput};
constexpr OpDocs kNormDocs{"The length of the vectors along the axes, in the 1-norm or the 2-norm.",
                           kReduced, kReducedOutput};
constexpr OpDocs kLogsumexpDocs{"log(sum(exp(x))) along the axes, with no overflow on the way.",
                                kReduced, kReducedOutput};
constexpr OpDocs kArgmaxDocs{
    "The position of the largest element along an axis, the first of equals.", kReduced,
    kPositions};
constexpr OpDocs kArgminDocs{
    "The position of the smallest element along an axis, the first of equals.", kReduced,
    kPositions};
constexpr OpDocs kCumsumDocs{
    "Each element with all before it along an axis added; integers in int64.", kReduced, kRunning};

const OpDef& sum_op() {
  static const OpDef op{.name = "sum",
                        .docs = kSumDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .infer = infer_total,
                        .gradient = sum_gradient,
                        .cpu = kernels::sum_kernels()};
  return op;
}

const OpDef& mean_op() {
  static const OpDef op{.name = "mean",
                        .docs = kMeanDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .infer = infer_mean,
                        .gradient = mean_gradient,
                        .cpu = kernels::mean_kernels()};
  return op;
}

const OpDef& prod_op() {
  static const OpDef op{.name = "prod",
                        .docs = kProdDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .infer = infer_total,
                        .gradient = prod_gradient,
                        .cpu = kernels::prod_kernels()};
  return op;
}

const OpDef& max_op() {
  static const OpDef op{.name = "max",
                        .docs = kMaxDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .infer = infer_extreme,
                        .gradient = extreme_gradient,
                        .cpu = kernels::max_kernels()};
  return op;
}

const OpDef& min_op() {
  static const OpDef op{.name = "min",
                        .docs = kMinDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .infer = infer_extreme,
                        .gradient = extreme_gradient,
                        .cpu = kernels::min_kernels()};
  return op;
}

const OpDef& var_op() {
  static const OpDef op{.name = "var",
                        .docs = kVarDocs,
                        .schema = attr_schema<VarAttrs>(),
                        .promotion = Promotion::floating,
                        .infer = infer_var,
                        .gradient = var_gradient,
                        .cpu = kernels::var_kernels()};
  return op;
}

const OpDef& stddev_op() {
  static const OpDef op{.name = "stddev",
                        .docs = kStddevDocs,
                        .schema = attr_schema<VarAttrs>(),
                        .promotion = Promotion::floating,
                        .infer = infer_var,
                        .gradient = stddev_gradient,
                        .cpu = kernels::stddev_kernels()};
  return op;
}

const OpDef& any_op() {
  static const OpDef op{.name = "any",
                        .docs = kAnyDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .promotion = Promotion::boolean,
                        .infer = infer_truth,
                        .cpu = kernels::any_kernels()};
  return op;
}

const OpDef& all_op() {
  static const OpDef op{.name = "all",
                        .docs = kAllDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .promotion = Promotion::boolean,
                        .infer = infer_truth,
                        .cpu = kernels::all_kernels()};
  return op;
}

const OpDef& norm_op() {
  static const OpDef op{.name = "norm",
                        .docs = kNormDocs,
                        .schema = attr_schema<NormAttrs>(),
                        .promotion = Promotion::floating,
                        .infer = infer_norm,
                        .gradient = norm_gradient,
                        .cpu = kernels::norm_kernels()};
  return op;
}

const OpDef& logsumexp_op() {
  static const OpDef op{.name = "logsumexp",
                        .docs = kLogsumexpDocs,
                        .schema = attr_schema<ReduceAttrs>(),
                        .promotion = Promotion::floating,
                        .infer = infer_logsumexp,
                        .gradient = logsumexp_gradient,
                        .cpu = kernels::logsumexp_kernels()};
  return op;
}

const OpDef& argmax_op() {
  static const OpDef op{.name = "argmax",
                        .docs = kArgmaxDocs,
                        .schema = attr_schema<ArgAttrs>(),
                        .infer = infer_arg,
                        .cpu = kernels::argmax_kernels()};
  return op;
}

const OpDef& argmin_op() {
  static const OpDef op{.name = "argmin",
                        .docs = kArgminDocs,
                        .schema = attr_schema<ArgAttrs>(),
                        .infer = infer_arg,
                        .cpu = kernels::argmin_kernels()};
  return op;
}

const OpDef& cumsum_op() {
  static const OpDef op{.name = "cumsum",
                        .docs = kCumsumDocs,
                        .schema = attr_schema<CumsumAttrs>(),
                        .infer = infer_cumsum,
                        .gradient = cumsum_gradient,
                        .cpu = kernels::cumsum_kernels()};
  return op;
}

}  // namespace

Tensor sum(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one(sum_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor mean(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one(mean_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor prod(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one(prod_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor max(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one(max_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor min(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one(min_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor var(const Tensor& x, const Ints& axes, bool keepdims, int ddof) {
  return apply_one_promoted(var_op(), {x}, Attrs::of(VarAttrs{axes, keepdims, ddof}));
}

Tensor stddev(const Tensor& x, const Ints& axes, bool keepdims, int ddof) {
  return apply_one_promoted(stddev_op(), {x}, Attrs::of(VarAttrs{axes, keepdims, ddof}));
}

Tensor any(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one_promoted(any_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor all(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one_promoted(all_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor norm(const Tensor& x, int ord, const Ints& axes, bool keepdims) {
  return apply_one_promoted(norm_op(), {x}, Attrs::of(NormAttrs{ord, axes, keepdims}));
}

Tensor logsumexp(const Tensor& x, const Ints& axes, bool keepdims) {
  return apply_one_promoted(logsumexp_op(), {x}, Attrs::of(ReduceAttrs{axes, keepdims}));
}

Tensor argmax(const Tensor& x, int axis, bool keepdims) {
  return apply_one(argmax_op(), {x}, Attrs::of(ArgAttrs{axis, keepdims}));
}

Tensor argmin(const Tensor& x, int axis, bool keepdims) {
  return apply_one(argmin_op(), {x}, Attrs::of(ArgAttrs{axis, keepdims}));
}

Tensor cumsum(const Tensor& x, int axis, bool reverse) {
  return apply_one(cumsum_op(), {x}, Attrs::of(CumsumAttrs{axis, reverse}));
}

namespace families {

Family reduce() {
  return {&sum_op(),
          &mean_op(),
          &prod_op(),
          &max_op(),
          &min_op(),
          &var_op(),
          &stddev_op(),
          &any_op(),
          &all_op(),
          &norm_op(),
          &logsumexp_op(),
          &argmax_op(),
          &argmin_op(),
          &cumsum_op(),
          &detail::cumprod_op(),
          &detail::linear_scan_op()};
}

}  // namespace families
}  // namespace lockstep
