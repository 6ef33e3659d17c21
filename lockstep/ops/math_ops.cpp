// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/math_ops.h"

#include <numbers>

#include "lockstep/ops/cpu/math_ops.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

using Tensors = std::vector<Tensor>;

// Inference

Infos infer_float(const InferArgs& args) {
  if (!is_floating(args.inputs[0].dtype))
    throw InvalidArgument("{}: got {}, expected a floating dtype", args.op,
                          name_of(args.inputs[0].dtype));
  return {args.inputs[0]};
}

Infos infer_number(const InferArgs& args) {
  if (args.inputs[0].dtype == DType::boolean)
    throw InvalidArgument("{}: got bool, expected numbers", args.op);
  return {args.inputs[0]};
}

Infos infer_test(const InferArgs& args) {
  TensorInfo out = args.inputs[0];
  out.dtype = DType::boolean;
  return {out};
}

// The pair's own rule, on what the two broadcast to.
template <InferFn rule>
Infos infer_pair(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  const TensorInfo& b = args.inputs[1];
  if (a.dtype != b.dtype)
    throw InvalidArgument("{}: dtypes {} and {} differ", args.op, name_of(a.dtype),
                          name_of(b.dtype));
  Infos infos = rule(args);
  infos[0].shape = broadcast_shapes(args.op, a.shape, b.shape);
  return infos;
}

// Gradients: x is the input, y the output, g the output's gradient.

using Slope = Tensor (*)(const Tensor& x, const Tensor& y, const Tensor& g);

template <Slope slope>
Tensors gradient_of(const GradientArgs& args) {
  return {slope(args.inputs[0], args.outputs[0], args.grad())};
}

// sqrt(x^2 + 1): the square of a half is soon infinite.
Tensor radius(const Tensor& x) { return hypot(x, Tensor::scalar(1.0, x.dtype(), x.device())); }

Tensor exp2_slope(const Tensor&, const Tensor& y, const Tensor& g) {
  return g * (y * std::numbers::ln2);
}
Tensor log2_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  return g / (x * std::numbers::ln2);
}
Tensor log10_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  return g / (x * std::numbers::ln10);
}
Tensor tan_slope(const Tensor&, const Tensor& y, const Tensor& g) { return g * (square(y) + 1.0); }
Tensor asin_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  return g * rsqrt(1.0 - square(x));
}
Tensor acos_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  return negative(g * rsqrt(1.0 - square(x)));
}
Tensor atan_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  const Tensor r = radius(x);
  return g / r / r;
}
Tensor sinh_slope(const Tensor& x, const Tensor&, const Tensor& g) { return g * cosh(x); }
Tensor cosh_slope(const Tensor& x, const Tensor&, const Tensor& g) { return g * sinh(x); }
Tensor asinh_slope(const Tensor& x, const Tensor&, const Tensor& g) { return g / radius(x); }
Tensor acosh_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  const Tensor size = abs(x);
  return g * rsqrt(size - 1.0) * rsqrt(size + 1.0);
}
Tensor atanh_slope(const Tensor& x, const Tensor&, const Tensor& g) {
  return g / (1.0 - square(x));
}
Tensor erfinv_slope(const Tensor&, const Tensor& y, const Tensor& g) {
  return g * (exp(square(y)) * (0.5 / std::numbers::inv_sqrtpi));
}

// Fills in what is needed: `a` and `b` make the gradients before broadcasting is undone.
template <class A, class B>
Tensors pair_gradient(const GradientArgs& args, A&& a, B&& b) {
  Tensors grads(2);
  if (args.needs_grad(0)) grads[0] = sum_to(a(), args.inputs[0].shape());
  if (args.needs_grad(1)) grads[1] = sum_to(b(), args.inputs[1].shape());
  return grads;
}

Tensors atan2_gradient(const GradientArgs& args) {
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  const Tensor r = hypot(a, b);
  const Tensor share = args.grad() / r;
  return pair_gradient(
      args, [&] { return share * (b / r); }, [&] { return negative(share * (a / r)); });
}

// fmod(a, b) = a - trunc(a / b) * b
Tensors fmod_gradient(const GradientArgs& args) {
  const Tensor& g = args.grad();
  return pair_gradient(
      args, [&] { return g; },
      [&] { return negative(g * trunc(args.inputs[0] / args.inputs[1])); });
}

// 0 where both are 0.
Tensors hypot_gradient(const GradientArgs& args) {
  const Tensor& y = args.outputs[0];
  const Tensor share = args.grad() / (y + cast(equal(y, 0.0), y.dtype()));
  return pair_gradient(
      args, [&] { return share * args.inputs[0]; }, [&] { return share * args.inputs[1]; });
}

// Equals share the gradient, infinite ones too.
Tensor part_of_sum(const Tensor& g, const Tensor& own, const Tensor& other) {
  const Tensor half = Tensor::scalar(0.5, g.dtype(), g.device());
  return g * where(equal(own, other), half, sigmoid(own - other));
}

Tensors logaddexp_gradient(const GradientArgs& args) {
  const Tensor& a = args.inputs[0];
  const Tensor& b = args.inputs[1];
  return pair_gradient(
      args, [&] { return part_of_sum(args.grad(), a, b); },
      [&] { return part_of_sum(args.grad(), b, a); });
}

// The ops

constexpr ArgumentDoc kElements[] = {{"x", "numbers"}};
constexpr ArgumentDoc kElementsOutput[] = {{"y", "of x's shape"}};
constexpr ArgumentDoc kTested[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kTestedOutput[] = {{"y", "bool, of x's shape"}};
constexpr ArgumentDoc kPair[] = {{"a", "numbers"}, {"b", "numbers; the two broadcast"}};
constexpr ArgumentDoc kPairOutput[] = {{"y", "of the shape that a and b broadcast to"}};

enum class AtZero : bool { not_zero, zero };

OpDef function(std::string_view name, std::string_view summary, GradientFn gradient, AtZero zero) {
  return {.name = name,
          .docs = {summary, kElements, kElementsOutput},
          .kind = OpKind::elementwise,
          .promotion = Promotion::floating,
          .infer = infer_float,
          .gradient = gradient,
          .zero_preserving = zero == AtZero::zero,
          .cpu = kernels::math_kernels(name)};
}

OpDef test(std::string_view name, std::string_view summary, AtZero zero) {
  return {.name = name,
          .docs = {summary, kTested, kTestedOutput},
          .kind = OpKind::elementwise,
          .infer = infer_test,
          .zero_preserving = zero == AtZero::zero,
          .cpu = kernels::math_kernels(name)};
}

OpDef pair_op(std::string_view name, std::string_view summary, InferFn infer, GradientFn gradient,
              AtZero zero) {
  return {.name = name,
          .docs = {summary, kPair, kPairOutput},
          .min_inputs = 2,
          .max_inputs = 2,
          .kind = OpKind::elementwise,
          .promotion = infer == infer_pair<infer_float> ? Promotion::floating : Promotion::common,
          .infer = infer,
          .gradient = gradient,
          .zero_preserving = zero == AtZero::zero,
          .cpu = kernels::math_kernels(name)};
}

struct MathOps {
  OpDef exp2 = function("exp2", "2 to the power of x.", gradient_of<exp2_slope>, AtZero::not_zero);
  OpDef log2 = function("log2", "The logarithm to base 2; -inf at 0, NaN below.",
                        gradient_of<log2_slope>, AtZero::not_zero);
  OpDef log10 = function("log10", "The logarithm to base 10; -inf at 0, NaN below.",
                         gradient_of<log10_slope>, AtZero::not_zero);
  OpDef tan = function("tan", "The tangent of x in radians.", gradient_of<tan_slope>, AtZero::zero);
  OpDef asin = function("asin", "The angle from -pi/2 to pi/2 whose sine is x.",
                        gradient_of<asin_slope>, AtZero::zero);
  OpDef acos = function("acos", "The angle from 0 to pi whose cosine is x.",
                        gradient_of<acos_slope>, AtZero::not_zero);
  OpDef atan = function("atan", "The angle from -pi/2 to pi/2 whose tangent is x.",
                        gradient_of<atan_slope>, AtZero::zero);
  OpDef sinh = function("sinh", "The hyperbolic sine.", gradient_of<sinh_slope>, AtZero::zero);
  OpDef cosh =
      function("cosh", "The hyperbolic cosine.", gradient_of<cosh_slope>, AtZero::not_zero);
  OpDef asinh = function("asinh", "The inverse of sinh.", gradient_of<asinh_slope>, AtZero::zero);
  OpDef acosh = function("acosh", "The inverse of cosh; NaN below 1.", gradient_of<acosh_slope>,
                         AtZero::not_zero);
  OpDef atanh = function("atanh", "The inverse of tanh; infinite at -1 and 1.",
                         gradient_of<atanh_slope>, AtZero::zero);
  OpDef erfinv = function("erfinv", "The inverse of erf; infinite at -1 and 1.",
                          gradient_of<erfinv_slope>, AtZero::zero);
  OpDef trunc = [] {
    OpDef op = function("trunc", "x without its fraction: the nearest integer towards 0.", nullptr,
                        AtZero::zero);
    op.promotion = Promotion::none;
    op.infer = infer_number;
    return op;
  }();
  OpDef isnan = test("isnan", "Whether x is not a number.", AtZero::zero);
  OpDef isinf = test("isinf", "Whether x is infinite.", AtZero::zero);
  OpDef isfinite = test("isfinite", "Whether x is neither infinite nor NaN.", AtZero::not_zero);
  OpDef atan2 = pair_op("atan2", "The angle from -pi to pi of the point (b, a).",
                        infer_pair<infer_float>, atan2_gradient, AtZero::zero);
  OpDef fmod = pair_op("fmod", "What a leaves when divided by b, with the sign of a, as C's fmod.",
                       infer_pair<infer_number>, fmod_gradient, AtZero::not_zero);
  OpDef hypot = pair_op("hypot", "sqrt(a^2 + b^2), with no overflow on the way.",
                        infer_pair<infer_float>, hypot_gradient, AtZero::zero);
  OpDef logaddexp = pair_op("logaddexp", "log(exp(a) + exp(b)), with no overflow on the way.",
                            infer_pair<infer_float>, logaddexp_gradient, AtZero::not_zero);
};

const MathOps& ops() {
  static const MathOps all;
  return all;
}

Tensor call(const OpDef& op, const Tensor& x) { return apply_one_promoted(op, {x}); }
Tensor call(const OpDef& op, const Tensor& a, const Tensor& b) {
  return apply_one_promoted(op, {a, b});
}

}  // namespace

Tensor exp2(const Tensor& x) { return call(ops().exp2, x); }
Tensor log2(const Tensor& x) { return call(ops().log2, x); }
Tensor log10(const Tensor& x) { return call(ops().log10, x); }
Tensor tan(const Tensor& x) { return call(ops().tan, x); }
Tensor asin(const Tensor& x) { return call(ops().asin, x); }
Tensor acos(const Tensor& x) { return call(ops().acos, x); }
Tensor atan(const Tensor& x) { return call(ops().atan, x); }
Tensor sinh(const Tensor& x) { return call(ops().sinh, x); }
Tensor cosh(const Tensor& x) { return call(ops().cosh, x); }
Tensor asinh(const Tensor& x) { return call(ops().asinh, x); }
Tensor acosh(const Tensor& x) { return call(ops().acosh, x); }
Tensor atanh(const Tensor& x) { return call(ops().atanh, x); }
Tensor erfinv(const Tensor& x) { return call(ops().erfinv, x); }
Tensor trunc(const Tensor& x) { return call(ops().trunc, x); }
Tensor isnan(const Tensor& x) { return call(ops().isnan, x); }
Tensor isinf(const Tensor& x) { return call(ops().isinf, x); }
Tensor isfinite(const Tensor& x) { return call(ops().isfinite, x); }
Tensor atan2(const Tensor& a, const Tensor& b) { return call(ops().atan2, a, b); }
Tensor fmod(const Tensor& a, const Tensor& b) { return call(ops().fmod, a, b); }
Tensor hypot(const Tensor& a, const Tensor& b) { return call(ops().hypot, a, b); }
Tensor logaddexp(const Tensor& a, const Tensor& b) { return call(ops().logaddexp, a, b); }

namespace families {

Family math() {
  const MathOps& o = ops();
  return {&o.exp2,  &o.log2,  &o.log10,    &o.tan,   &o.asin,  &o.acos,   &o.atan,
          &o.sinh,  &o.cosh,  &o.asinh,    &o.acosh, &o.atanh, &o.erfinv, &o.trunc,
          &o.isnan, &o.isinf, &o.isfinite, &o.atan2, &o.fmod,  &o.hypot,  &o.logaddexp};
}

}  // namespace families
}  // namespace lockstep
