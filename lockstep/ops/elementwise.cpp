// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/elementwise.h"

#include <cmath>

#include "lockstep/ops/cpu/elementwise.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise_attrs.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

using Tensors = std::vector<Tensor>;

bool is_number(DType dtype) { return dtype != DType::boolean; }

// Inference

TensorInfo broadcast_pair(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  const TensorInfo& b = args.inputs[1];
  if (a.dtype != b.dtype)
    throw InvalidArgument("{}: dtypes {} and {} differ", args.op, name_of(a.dtype),
                          name_of(b.dtype));
  return {broadcast_shapes(args.op, a.shape, b.shape), a.dtype, a.device};
}

[[noreturn]] void fail_dtype(const InferArgs& args, DType got, const char* expected) {
  throw InvalidArgument("{}: got {}, expected {}", args.op, name_of(got), expected);
}

Infos infer_any(const InferArgs& args) { return {broadcast_pair(args)}; }

Infos infer_numbers(const InferArgs& args) {
  const TensorInfo out = broadcast_pair(args);
  if (!is_number(out.dtype)) fail_dtype(args, out.dtype, "numbers");
  return {out};
}

Infos infer_floats(const InferArgs& args) {
  const TensorInfo out = broadcast_pair(args);
  if (!is_floating(out.dtype)) fail_dtype(args, out.dtype, "a floating dtype");
  return {out};
}

Infos infer_comparison(const InferArgs& args) {
  TensorInfo out = broadcast_pair(args);
  out.dtype = DType::boolean;
  return {out};
}

Infos infer_logic(const InferArgs& args) {
  const TensorInfo out = broadcast_pair(args);
  if (out.dtype != DType::boolean) fail_dtype(args, out.dtype, "bool");
  return {out};
}

Infos infer_not(const InferArgs& args) {
  if (args.inputs[0].dtype != DType::boolean) fail_dtype(args, args.inputs[0].dtype, "bool");
  return {args.inputs[0]};
}

Infos infer_where(const InferArgs& args) {
  const TensorInfo& condition = args.inputs[0];
  const TensorInfo& a = args.inputs[1];
  const TensorInfo& b = args.inputs[2];
  if (condition.dtype != DType::boolean)
    throw InvalidArgument("{}: the condition is {}, expected bool", args.op,
                          name_of(condition.dtype));
  if (a.dtype != b.dtype)
    throw InvalidArgument("{}: dtypes {} and {} differ", args.op, name_of(a.dtype),
                          name_of(b.dtype));
  const Shape values = broadcast_shapes(args.op, a.shape, b.shape);
  return {{broadcast_shapes(args.op, condition.shape, values), a.dtype, a.device}};
}

Infos infer_clip(const InferArgs& args) {
  const auto& [low, high] = args.attrs.as<ClipAttrs>();
  if (!(low <= high))
    throw InvalidArgument("{}: low is {} and high is {}, expected low <= high", args.op, low, high);
  if (!is_number(args.inputs[0].dtype)) fail_dtype(args, args.inputs[0].dtype, "numbers");
  return {args.inputs[0]};
}

Infos infer_cast(const InferArgs& args) {
  TensorInfo out = args.inputs[0];
  out.dtype = args.attrs.as<CastAttrs>().dtype;
  return {out};
}

// Gradients

// Fills in what is needed: `a` and `b` make the gradients before broadcasting is undone.
template <class A, class B>
Tensors pair_gradient(const GradientArgs& args, A&& a, B&& b) {
  Tensors grads(2);
  if (args.needs_grad(0)) grads[0] = sum_to(a(), args.inputs[0].shape());
  if (args.needs_grad(1)) grads[1] = sum_to(b(), args.inputs[1].shape());
  return grads;
}

Tensors add_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  return pair_gradient(
      args, [&] { return g; }, [&] { return g; });
}

Tensors subtract_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  return pair_gradient(
      args, [&] { return g; }, [&] { return negative(g); });
}

Tensors multiply_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  return pair_gradient(
      args, [&] { return g * args.inputs[1]; }, [&] { return g * args.inputs[0]; });
}

Tensors divide_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  const Tensor& b = args.inputs[1];
  return pair_gradient(
      args, [&] { return g / b; }, [&] { return negative(g * args.outputs[0] / b); });
}

// a % b = a - floor(a / b) * b
Tensors remainder_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  return pair_gradient(
      args, [&] { return g; },
      [&] { return negative(g * floor_divide(args.inputs[0], args.inputs[1])); });
}

Tensor zero_like(const Tensor& x) { return Tensor::scalar(0.0, x.dtype(), x.device()); }

// Where the slope's formula meets 0 * infinity the limit is 0: b = 0 for the base, a = 0 for the
// exponent.
Tensors power_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  return pair_gradient(
      args, [&] { return where(equal(b, 0.0), zero_like(g), g * b * power(a, b - 1.0)); },
      [&] {
        const Tensor at_limit = logical_and(equal(a, 0.0), greater_equal(b, 0.0));
        const Tensor base = where(at_limit, Tensor::scalar(1.0, a.dtype(), a.device()), a);
        return where(at_limit, zero_like(g), g * args.outputs[0] * log(base));
      });
}

// Equals share the gradient. Where one is NaN there is no loser, and both have all of it.
Tensor share_of(const Tensor& g, const Tensor& winner, const Tensor& loser) {
  const Tensor won = where(less(winner, loser), zero_like(g), g);
  return where(equal(winner, loser), g * 0.5, won);
}

Tensors maximum_gradient(const GradientArgs& args) {
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  return pair_gradient(
      args, [&] { return share_of(args.grad(), a, b); },
      [&] { return share_of(args.grad(), b, a); });
}

Tensors minimum_gradient(const GradientArgs& args) {
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  return pair_gradient(
      args, [&] { return share_of(args.grad(), b, a); },
      [&] { return share_of(args.grad(), a, b); });
}

Tensors where_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  const Tensor& condition = args.inputs[0];
  Tensors grads(3);
  if (args.needs_grad(1))
    grads[1] = sum_to(where(condition, g, zero_like(g)), args.inputs[1].shape());
  if (args.needs_grad(2))
    grads[2] = sum_to(where(condition, zero_like(g), g), args.inputs[2].shape());
  return grads;
}

Tensors clip_gradient(const GradientArgs& args) {
  const auto& [low, high] = args.attrs.as<ClipAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor inside = logical_and(greater_equal(x, low), less_equal(x, high));
  return {where(inside, args.grad(), zero_like(args.grad()))};
}

Tensors cast_gradient(const GradientArgs& args) {
  if (!is_floating(args.inputs[0].dtype()) || !is_floating(args.outputs[0].dtype())) return {{}};
  return {cast(args.grad(), args.inputs[0].dtype())};
}

// The ops

constexpr ArgumentDoc kPair[] = {{"a", "any tensor"}, {"b", "any tensor; the two broadcast"}};
constexpr ArgumentDoc kPairOutput[] = {{"y", "of the shape that a and b broadcast to"}};
constexpr ArgumentDoc kTruth[] = {{"y", "bool, of the shape that a and b broadcast to"}};

struct BinaryDocs {
  std::string_view summary;
  std::span<const ArgumentDoc> outputs = kPairOutput;
  Promotion promotion = Promotion::common;
};

OpDef binary(std::string_view name, const BinaryDocs& docs, InferFn infer, GradientFn gradient,
             bool zero_preserving) {
  return {.name = name,
          .docs = {docs.summary, kPair, docs.outputs},
          .min_inputs = 2,
          .max_inputs = 2,
          .kind = OpKind::elementwise,
          .promotion = docs.promotion,
          .infer = infer,
          .gradient = gradient,
          .zero_preserving = zero_preserving,
          .cpu = kernels::elementwise_kernels(name)};
}

const OpDef& add_op() {
  static const OpDef op =
      binary("add", {"a + b; of bool, the logical or."}, infer_any, add_gradient, true);
  return op;
}
const OpDef& subtract_op() {
  static const OpDef op = binary("subtract", {"a - b."}, infer_numbers, subtract_gradient, true);
  return op;
}
const OpDef& multiply_op() {
  static const OpDef op = [] {
    OpDef def = binary("multiply", {"a * b; of bool, the logical and."}, infer_any,
                       multiply_gradient, true);
    def.zero_with_singles = true;
    return def;
  }();
  return op;
}
const OpDef& divide_op() {
  static const OpDef op =
      binary("divide", {"a / b, the true quotient.", kPairOutput, Promotion::floating},
             infer_floats, divide_gradient, false);
  return op;
}
const OpDef& floor_divide_op() {
  static const OpDef op =
      binary("floor_divide", {"a / b, rounded down."}, infer_numbers, nullptr, false);
  return op;
}
const OpDef& remainder_op() {
  static const OpDef op =
      binary("remainder", {"What a leaves when divided by b, with the sign of b, as Python's %."},
             infer_numbers, remainder_gradient, false);
  return op;
}
const OpDef& power_op() {
  static const OpDef op =
      binary("power", {"a to the power of b."}, infer_numbers, power_gradient, false);
  return op;
}
const OpDef& maximum_op() {
  static const OpDef op = binary("maximum", {"The larger of a and b; NaN where one of them is."},
                                 infer_any, maximum_gradient, true);
  return op;
}
const OpDef& minimum_op() {
  static const OpDef op = binary("minimum", {"The smaller of a and b; NaN where one of them is."},
                                 infer_any, minimum_gradient, true);
  return op;
}
const OpDef& equal_op() {
  static const OpDef op =
      binary("equal", {"Whether a equals b.", kTruth}, infer_comparison, nullptr, false);
  return op;
}
const OpDef& not_equal_op() {
  static const OpDef op =
      binary("not_equal", {"Whether a differs from b.", kTruth}, infer_comparison, nullptr, true);
  return op;
}
const OpDef& less_op() {
  static const OpDef op =
      binary("less", {"Whether a is below b.", kTruth}, infer_comparison, nullptr, true);
  return op;
}
const OpDef& less_equal_op() {
  static const OpDef op =
      binary("less_equal", {"Whether a is at most b.", kTruth}, infer_comparison, nullptr, false);
  return op;
}
const OpDef& greater_op() {
  static const OpDef op =
      binary("greater", {"Whether a is above b.", kTruth}, infer_comparison, nullptr, true);
  return op;
}
const OpDef& greater_equal_op() {
  static const OpDef op = binary("greater_equal", {"Whether a is at least b.", kTruth},
                                 infer_comparison, nullptr, false);
  return op;
}
const OpDef& logical_and_op() {
  static const OpDef op = binary(
      "logical_and",
      {"Whether both a and b are true, which every number but 0 is.", kTruth, Promotion::boolean},
      infer_logic, nullptr, true);
  return op;
}
const OpDef& logical_or_op() {
  static const OpDef op =
      binary("logical_or",
             {"Whether a or b is true, which every number but 0 is.", kTruth, Promotion::boolean},
             infer_logic, nullptr, true);
  return op;
}
const OpDef& logical_xor_op() {
  static const OpDef op =
      binary("logical_xor",
             {"Whether just one of a and b is true, which every number but 0 is.", kTruth,
              Promotion::boolean},
             infer_logic, nullptr, true);
  return op;
}

constexpr ArgumentDoc kSingle[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kNotOutput[] = {{"y", "bool, of x's shape"}};
constexpr ArgumentDoc kSingleOutput[] = {{"y", "of x's shape"}};
constexpr ArgumentDoc kChoice[] = {{"condition", "which of the two to take"},
                                   {"a", "taken where the condition is true"},
                                   {"b", "taken elsewhere; all three broadcast"}};
constexpr ArgumentDoc kChoiceOutput[] = {{"y", "of the shape that all three broadcast to"}};
constexpr OpDocs kNotDocs{"Whether x is false, which 0 is.", kSingle, kNotOutput};
constexpr OpDocs kWhereDocs{"a where the condition is true, b elsewhere.", kChoice, kChoiceOutput};
constexpr OpDocs kClipDocs{"x, moved to the nearest number from low to high.", kSingle,
                           kSingleOutput};
constexpr OpDocs kCastDocs{
    "x in another dtype; to integers, fractions are cut off and what does not fit becomes the "
    "nearest end.",
    kSingle, kSingleOutput};

const OpDef& logical_not_op() {
  static const OpDef op{.name = "logical_not",
                        .docs = kNotDocs,
                        .kind = OpKind::elementwise,
                        .promotion = Promotion::boolean,
                        .infer = infer_not,
                        .cpu = kernels::elementwise_kernels("logical_not")};
  return op;
}

const OpDef& where_op() {
  static const OpDef op{.name = "where",
                        .docs = kWhereDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .kind = OpKind::elementwise,
                        .promotion = Promotion::condition,
                        .infer = infer_where,
                        .gradient = where_gradient,
                        .zero_preserving = true,
                        .cpu = kernels::elementwise_kernels("where")};
  return op;
}

const OpDef& clip_op() {
  static const OpDef op{.name = "clip",
                        .docs = kClipDocs,
                        .kind = OpKind::elementwise,
                        .schema = attr_schema<ClipAttrs>(),
                        .infer = infer_clip,
                        .gradient = clip_gradient,
                        .cpu = kernels::elementwise_kernels("clip")};
  return op;
}

const OpDef& cast_op() {
  static const OpDef op{.name = "cast",
                        .docs = kCastDocs,
                        .kind = OpKind::elementwise,
                        .schema = attr_schema<CastAttrs>(),
                        .infer = infer_cast,
                        .gradient = cast_gradient,
                        .zero_preserving = true,
                        .cpu = kernels::elementwise_kernels("cast")};
  return op;
}

// Calls

Tensor pair(const OpDef& op, const Tensor& a, const Tensor& b) {
  return apply_one_promoted(op, {a, b});
}

Tensor number(const OpDef& op, const Tensor& x, double value) {
  detail::check_defined(op.name, x, 0);
  return Tensor::scalar(value, number_dtype(x.dtype(), value), x.device());
}

Tensor with_number(const OpDef& op, const Tensor& a, double b) {
  return pair(op, a, number(op, a, b));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return pair(add_op(), a, b); }
Tensor subtract(const Tensor& a, const Tensor& b) { return pair(subtract_op(), a, b); }
Tensor multiply(const Tensor& a, const Tensor& b) { return pair(multiply_op(), a, b); }
Tensor divide(const Tensor& a, const Tensor& b) { return pair(divide_op(), a, b); }
Tensor floor_divide(const Tensor& a, const Tensor& b) { return pair(floor_divide_op(), a, b); }
Tensor remainder(const Tensor& a, const Tensor& b) { return pair(remainder_op(), a, b); }
Tensor power(const Tensor& a, const Tensor& b) { return pair(power_op(), a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return pair(maximum_op(), a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return pair(minimum_op(), a, b); }

Tensor operator-(const Tensor& x) { return negative(x); }

Tensor add(const Tensor& a, double b) { return with_number(add_op(), a, b); }
Tensor subtract(const Tensor& a, double b) { return with_number(subtract_op(), a, b); }
Tensor subtract(double a, const Tensor& b) {
  return pair(subtract_op(), number(subtract_op(), b, a), b);
}
Tensor multiply(const Tensor& a, double b) { return with_number(multiply_op(), a, b); }
Tensor divide(const Tensor& a, double b) { return with_number(divide_op(), a, b); }
Tensor divide(double a, const Tensor& b) { return pair(divide_op(), number(divide_op(), b, a), b); }
Tensor maximum(const Tensor& a, double b) { return with_number(maximum_op(), a, b); }
Tensor minimum(const Tensor& a, double b) { return with_number(minimum_op(), a, b); }

Tensor power(const Tensor& a, double b) {
  detail::check_defined(power_op().name, a, 0);
  if (b == 2.0 && is_number(a.dtype())) return square(a);
  if (is_floating(a.dtype())) {
    if (b == 0.5) return sqrt(a);
    if (b == -0.5) return rsqrt(a);
    if (b == -1.0) return reciprocal(a);
  }
  return with_number(power_op(), a, b);
}

Tensor equal(const Tensor& a, const Tensor& b) { return pair(equal_op(), a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return pair(not_equal_op(), a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return pair(less_op(), a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return pair(less_equal_op(), a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return pair(greater_op(), a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return pair(greater_equal_op(), a, b); }
Tensor equal(const Tensor& a, double b) { return with_number(equal_op(), a, b); }
Tensor not_equal(const Tensor& a, double b) { return with_number(not_equal_op(), a, b); }
Tensor less(const Tensor& a, double b) { return with_number(less_op(), a, b); }
Tensor less_equal(const Tensor& a, double b) { return with_number(less_equal_op(), a, b); }
Tensor greater(const Tensor& a, double b) { return with_number(greater_op(), a, b); }
Tensor greater_equal(const Tensor& a, double b) { return with_number(greater_equal_op(), a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return pair(logical_and_op(), a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return pair(logical_or_op(), a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return pair(logical_xor_op(), a, b); }
Tensor logical_not(const Tensor& x) { return apply_one_promoted(logical_not_op(), {x}); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply_one_promoted(where_op(), {condition, a, b});
}

Tensor clip(const Tensor& x, double low, double high) {
  return apply_one(clip_op(), {x}, Attrs::of(ClipAttrs{low, high}));
}

Tensor cast(const Tensor& x, DType dtype) {
  detail::check_defined(cast_op().name, x, 0);
  if (x.dtype() == dtype) return x;
  return apply_one(cast_op(), {x}, Attrs::of(CastAttrs{dtype}));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  detail::check_defined("sum_to", x);
  if (x.shape() == shape) return x;
  if (!(broadcast_shapes("sum_to", shape, x.shape()) == x.shape()))
    throw InvalidArgument("sum_to: shape {} does not broadcast to {}", shape.str(),
                          x.shape().str());
  const int lead = x.rank() - shape.rank();
  Ints axes;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < lead || shape[axis - lead] != x.shape()[axis]) axes.push_back(axis);
  const Tensor summed = sum(x, axes, true);
  return lead == 0 ? summed : reshape(summed, shape.vector());
}

namespace families {

Family elementwise() {
  return {&add_op(),          &subtract_op(),    &multiply_op(),      &divide_op(),
          &floor_divide_op(), &remainder_op(),   &power_op(),         &maximum_op(),
          &minimum_op(),      &equal_op(),       &not_equal_op(),     &less_op(),
          &less_equal_op(),   &greater_op(),     &greater_equal_op(), &logical_and_op(),
          &logical_or_op(),   &logical_xor_op(), &logical_not_op(),   &where_op(),
          &clip_op(),         &cast_op()};
}

}  // namespace families
}  // namespace lockstep
