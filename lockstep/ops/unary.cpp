// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/unary.h"

#include <numbers>

#include "lockstep/ops/cpu/scalar_functions.h"
#include "lockstep/ops/cpu/unary.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/unary_attrs.h"

namespace lockstep {
namespace {

using kernels::scalar::kGeluCube;
using kernels::scalar::kGeluScale;
using kernels::scalar::kSeluAlpha;
using kernels::scalar::kSeluScale;
using Tensors = std::vector<Tensor>;

// Inference

Infos infer_number(const InferArgs& args) {
  if (args.inputs[0].dtype == DType::boolean)
    throw InvalidArgument("{}: got bool, expected numbers", args.op);
  return {args.inputs[0]};
}

Infos infer_float(const InferArgs& args) {
  if (!is_floating(args.inputs[0].dtype))
    throw InvalidArgument("{}: got {}, expected a floating dtype", args.op,
                          name_of(args.inputs[0].dtype));
  return {args.inputs[0]};
}

Infos infer_backward(const InferArgs& args) {
  const TensorInfo& grad = args.inputs[0];
  const TensorInfo& value = args.inputs[1];
  if (!(grad.shape == value.shape) || grad.dtype != value.dtype)
    throw InvalidArgument("{}: the gradient is {}, expected {}", args.op, grad.str(), value.str());
  return infer_float(args);
}

// Gradients: x is the input, y the output, g the output's gradient.

struct Unary {
  const Tensor& x;
  const Tensor& y;
  const Tensor& g;
  const Attrs& attrs;
};

template <Tensor (*slope)(const Unary&)>
Tensors gradient_of(const GradientArgs& args) {
  return {slope({args.inputs[0], args.outputs[0], args.grad(), args.attrs})};
}

Tensor zero_like(const Tensor& x) { return Tensor::scalar(0.0, x.dtype(), x.device()); }

Tensor negative_slope(const Unary& u) { return negative(u.g); }
Tensor exp_slope(const Unary& u) { return u.g * u.y; }
Tensor expm1_slope(const Unary& u) { return u.g * (u.y + 1.0); }
Tensor log_slope(const Unary& u) { return u.g / u.x; }
Tensor log1p_slope(const Unary& u) { return u.g / (u.x + 1.0); }
Tensor sqrt_slope(const Unary& u) { return u.g / (u.y * 2.0); }
Tensor rsqrt_slope(const Unary& u) { return u.g * (u.y * square(u.y)) * -0.5; }
Tensor square_slope(const Unary& u) { return u.g * (u.x * 2.0); }
Tensor reciprocal_slope(const Unary& u) { return negative(u.g * square(u.y)); }
Tensor abs_slope(const Unary& u) { return u.g * sign(u.x); }
Tensor sin_slope(const Unary& u) { return u.g * cos(u.x); }
Tensor cos_slope(const Unary& u) { return negative(u.g * sin(u.x)); }
Tensor tanh_slope(const Unary& u) { return tanh_backward(u.g, u.y); }
Tensor sigmoid_slope(const Unary& u) { return sigmoid_backward(u.g, u.y); }
Tensor softplus_slope(const Unary& u) { return u.g * sigmoid(u.x); }
Tensor relu_slope(const Unary& u) { return relu_backward(u.g, u.y); }

Tensor erf_slope(const Unary& u) {
  return u.g * (exp(negative(square(u.x))) * (2.0 * std::numbers::inv_sqrtpi));
}

Tensor leaky_relu_slope(const Unary& u) {
  return where(greater(u.x, 0.0), u.g, u.g * u.attrs.as<SlopeAttrs>().slope);
}

// scale * alpha * exp(x) on the negative side. (y + scale * alpha is the same, and nothing is left
// of it where y is about -scale * alpha.) The exponential must not overflow on the other side.
Tensor exponential_slope(const Unary& u, double scale, double alpha) {
  const Tensor is_positive = greater(u.x, 0.0);
  const Tensor low = exp(where(is_positive, zeros_like(u.x), u.x)) * (scale * alpha);
  return where(is_positive, u.g * scale, u.g * low);
}

Tensor elu_slope(const Unary& u) { return exponential_slope(u, 1.0, u.attrs.as<EluAttrs>().alpha); }
Tensor selu_slope(const Unary& u) { return exponential_slope(u, kSeluScale, kSeluAlpha); }

Tensor gelu_slope(const Unary& u) {
  return gelu_backward(u.g, u.x, u.attrs.as<GeluAttrs>().approximate);
}

Tensor silu_slope(const Unary& u) {
  const Tensor s = sigmoid(u.x);
  return u.g * (s + u.y * (1.0 - s));
}

Tensor hard_sigmoid_slope(const Unary& u) {
  const Tensor inside = logical_and(greater(u.y, 0.0), less(u.y, 1.0));
  return where(inside, u.g * u.attrs.as<HardSigmoidAttrs>().alpha, zero_like(u.g));
}

// Gradients of the backward ops, each a function of (grad, value): linear in grad.

Tensors relu_backward_gradient(const GradientArgs& args) {
  Tensors grads(2);
  if (args.needs_grad(0)) grads[0] = relu_backward(args.grad(), args.inputs[1]);
  return grads;
}

Tensors sigmoid_backward_gradient(const GradientArgs& args) {
  const Tensor& y = args.inputs[1];
  Tensors grads(2);
  if (args.needs_grad(0)) grads[0] = sigmoid_backward(args.grad(), y);
  if (args.needs_grad(1)) grads[1] = args.grad() * args.inputs[0] * (1.0 - y * 2.0);
  return grads;
}

Tensors tanh_backward_gradient(const GradientArgs& args) {
  const Tensor& y = args.inputs[1];
  Tensors grads(2);
  if (args.needs_grad(0)) grads[0] = tanh_backward(args.grad(), y);
  if (args.needs_grad(1)) grads[1] = args.grad() * args.inputs[0] * (y * -2.0);
  return grads;
}

// With the normal density p: gelu'' = p(x) * (2 - x^2).
Tensor exact_gelu_curvature(const Tensor& x) {
  const Tensor density = exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return density * (2.0 - square(x));
}

// With s = sigmoid(v): gelu = x s, gelu' = s + x s (1 - s) v',
// gelu'' = s (1 - s) (2 v' + x v'' + x v'^2 (1 - 2 s)).
Tensor tanh_gelu_curvature(const Tensor& x) {
  const double scale = 2.0 * kGeluScale;
  const Tensor s = sigmoid((x + x * square(x) * kGeluCube) * scale);
  const Tensor v1 = (square(x) * (3.0 * kGeluCube) + 1.0) * scale;
  const Tensor v2 = x * (6.0 * kGeluCube * scale);
  return s * (1.0 - s) * (v1 * 2.0 + x * v2 + x * square(v1) * (1.0 - s * 2.0));
}

Tensors gelu_backward_gradient(const GradientArgs& args) {
  const bool approximate = args.attrs.as<GeluAttrs>().approximate;
  const Tensor& x = args.inputs[1];
  Tensors grads(2);
  if (args.needs_grad(0)) grads[0] = gelu_backward(args.grad(), x, approximate);
  if (args.needs_grad(1))
    grads[1] = args.grad() * args.inputs[0] *
               (approximate ? tanh_gelu_curvature(x) : exact_gelu_curvature(x));
  return grads;
}

// The ops

constexpr ArgumentDoc kElements[] = {{"x", "numbers"}};
constexpr ArgumentDoc kElementsOutput[] = {{"y", "of x's shape"}};
constexpr ArgumentDoc kGradY[] = {{"grad", "the output's gradient"}, {"y", "the output"}};
constexpr ArgumentDoc kGradX[] = {{"grad", "the output's gradient"}, {"x", "the input"}};
constexpr ArgumentDoc kGradOutput[] = {{"grad_x", "of grad's shape"}};

// Integers keep their dtype in ops that are defined on them; for the others they become float32.
OpDef unary(std::string_view name, std::string_view summary, InferFn infer, GradientFn gradient,
            bool zero_preserving, AttrSchema schema = {}) {
  return {.name = name,
          .docs = {summary, kElements, kElementsOutput},
          .kind = OpKind::elementwise,
          .schema = schema,
          .promotion = infer == infer_float ? Promotion::floating : Promotion::none,
          .infer = infer,
          .gradient = gradient,
          .zero_preserving = zero_preserving,
          .cpu = kernels::unary_kernels(name)};
}

OpDef backward_op(std::string_view name, const OpDocs& docs, GradientFn gradient,
                  AttrSchema schema = {}) {
  OpDef op = unary(name, docs.summary, infer_backward, gradient, true, schema);
  op.docs = docs;
  op.min_inputs = op.max_inputs = 2;
  return op;
}

struct UnaryOps {
  OpDef negative = unary("negative", "-x.", infer_number, gradient_of<negative_slope>, true);
  OpDef exp = unary("exp", "e to the power of x.", infer_float, gradient_of<exp_slope>, false);
  OpDef expm1 =
      unary("expm1", "exp(x) - 1, exact near 0.", infer_float, gradient_of<expm1_slope>, true);
  OpDef log = unary("log", "The natural logarithm; -inf at 0, NaN below.", infer_float,
                    gradient_of<log_slope>, false);
  OpDef log1p =
      unary("log1p", "log(1 + x), exact near 0.", infer_float, gradient_of<log1p_slope>, true);
  OpDef sqrt =
      unary("sqrt", "The square root; NaN below 0.", infer_float, gradient_of<sqrt_slope>, true);
  OpDef rsqrt = unary("rsqrt", "1 / sqrt(x).", infer_float, gradient_of<rsqrt_slope>, false);
  OpDef square = unary("square", "x * x.", infer_number, gradient_of<square_slope>, true);
  OpDef reciprocal =
      unary("reciprocal", "1 / x.", infer_float, gradient_of<reciprocal_slope>, false);
  OpDef abs = unary("abs", "The magnitude of x.", infer_number, gradient_of<abs_slope>, true);
  OpDef sign =
      unary("sign", "-1, 0 or 1, as x is negative, zero or positive.", infer_number, nullptr, true);
  OpDef floor =
      unary("floor", "The largest integer that is not above x.", infer_number, nullptr, true);
  OpDef ceil =
      unary("ceil", "The smallest integer that is not below x.", infer_number, nullptr, true);
  OpDef round =
      unary("round", "The nearest integer; of two, the even one.", infer_number, nullptr, true);
  OpDef erf =
      unary("erf", "The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
            infer_float, gradient_of<erf_slope>, true);
  OpDef sin = unary("sin", "The sine of x in radians.", infer_float, gradient_of<sin_slope>, true);
  OpDef cos =
      unary("cos", "The cosine of x in radians.", infer_float, gradient_of<cos_slope>, false);
  OpDef tanh = unary("tanh", "The hyperbolic tangent.", infer_float, gradient_of<tanh_slope>, true);
  OpDef sigmoid =
      unary("sigmoid", "1 / (1 + exp(-x)).", infer_float, gradient_of<sigmoid_slope>, false);
  OpDef softplus = unary("softplus", "log(1 + exp(x)), a smooth relu.", infer_float,
                         gradient_of<softplus_slope>, false);
  OpDef relu = unary("relu", "max(x, 0).", infer_number, gradient_of<relu_slope>, true);
  OpDef leaky_relu = unary("leaky_relu", "x above 0, slope * x below.", infer_float,
                           gradient_of<leaky_relu_slope>, true, attr_schema<SlopeAttrs>());
  OpDef elu = unary("elu", "x above 0, alpha * (exp(x) - 1) below.", infer_float,
                    gradient_of<elu_slope>, true, attr_schema<EluAttrs>());
  OpDef selu = unary(
      "selu", "elu with the scale and alpha that keep mean 0 and variance 1 from layer to layer.",
      infer_float, gradient_of<selu_slope>, true);
  OpDef gelu = unary("gelu", "x times the probability that a standard normal number is below x.",
                     infer_float, gradient_of<gelu_slope>, true, attr_schema<GeluAttrs>());
  OpDef silu = unary("silu", "x * sigmoid(x).", infer_float, gradient_of<silu_slope>, true);
  OpDef hard_sigmoid =
      unary("hard_sigmoid", "alpha * x + beta, cut off at 0 and 1.", infer_float,
            gradient_of<hard_sigmoid_slope>, false, attr_schema<HardSigmoidAttrs>());
  OpDef relu_backward = backward_op(
      "relu_backward", {"relu's gradient: grad where y is above 0.", kGradY, kGradOutput},
      relu_backward_gradient);
  OpDef sigmoid_backward = backward_op(
      "sigmoid_backward", {"sigmoid's gradient: grad * y * (1 - y).", kGradY, kGradOutput},
      sigmoid_backward_gradient);
  OpDef tanh_backward =
      backward_op("tanh_backward", {"tanh's gradient: grad * (1 - y^2).", kGradY, kGradOutput},
                  tanh_backward_gradient);
  OpDef gelu_backward = backward_op("gelu_backward", {"gelu's gradient.", kGradX, kGradOutput},
                                    gelu_backward_gradient, attr_schema<GeluAttrs>());
};

const UnaryOps& ops() {
  static const UnaryOps all;
  return all;
}

Tensor call(const OpDef& op, const Tensor& x, const Attrs& attrs = {}) {
  return apply_one_promoted(op, {x}, attrs);
}

}  // namespace

Tensor negative(const Tensor& x) { return call(ops().negative, x); }
Tensor exp(const Tensor& x) { return call(ops().exp, x); }
Tensor expm1(const Tensor& x) { return call(ops().expm1, x); }
Tensor log(const Tensor& x) { return call(ops().log, x); }
Tensor log1p(const Tensor& x) { return call(ops().log1p, x); }
Tensor sqrt(const Tensor& x) { return call(ops().sqrt, x); }
Tensor rsqrt(const Tensor& x) { return call(ops().rsqrt, x); }
Tensor square(const Tensor& x) { return call(ops().square, x); }
Tensor reciprocal(const Tensor& x) { return call(ops().reciprocal, x); }
Tensor abs(const Tensor& x) { return call(ops().abs, x); }
Tensor sign(const Tensor& x) { return call(ops().sign, x); }
Tensor floor(const Tensor& x) { return call(ops().floor, x); }
Tensor ceil(const Tensor& x) { return call(ops().ceil, x); }
Tensor round(const Tensor& x) { return call(ops().round, x); }
Tensor erf(const Tensor& x) { return call(ops().erf, x); }
Tensor sin(const Tensor& x) { return call(ops().sin, x); }
Tensor cos(const Tensor& x) { return call(ops().cos, x); }
Tensor tanh(const Tensor& x) { return call(ops().tanh, x); }
Tensor sigmoid(const Tensor& x) { return call(ops().sigmoid, x); }
Tensor softplus(const Tensor& x) { return call(ops().softplus, x); }
Tensor relu(const Tensor& x) { return call(ops().relu, x); }
Tensor selu(const Tensor& x) { return call(ops().selu, x); }
Tensor silu(const Tensor& x) { return call(ops().silu, x); }

Tensor leaky_relu(const Tensor& x, double slope) {
  return call(ops().leaky_relu, x, Attrs::of(SlopeAttrs{slope}));
}

Tensor elu(const Tensor& x, double alpha) { return call(ops().elu, x, Attrs::of(EluAttrs{alpha})); }

Tensor gelu(const Tensor& x, bool approximate) {
  return call(ops().gelu, x, Attrs::of(GeluAttrs{approximate}));
}

Tensor hard_sigmoid(const Tensor& x, double alpha, double beta) {
  return call(ops().hard_sigmoid, x, Attrs::of(HardSigmoidAttrs{alpha, beta}));
}

Tensor relu_backward(const Tensor& grad, const Tensor& y) {
  return apply_one(ops().relu_backward, {grad, y});
}

Tensor sigmoid_backward(const Tensor& grad, const Tensor& y) {
  return apply_one(ops().sigmoid_backward, {grad, y});
}

Tensor tanh_backward(const Tensor& grad, const Tensor& y) {
  return apply_one(ops().tanh_backward, {grad, y});
}

Tensor gelu_backward(const Tensor& grad, const Tensor& x, bool approximate) {
  return apply_one(ops().gelu_backward, {grad, x}, Attrs::of(GeluAttrs{approximate}));
}

namespace families {

Family unary() {
  const UnaryOps& o = ops();
  return {&o.negative,
          &o.exp,
          &o.expm1,
          &o.log,
          &o.log1p,
          &o.sqrt,
          &o.rsqrt,
          &o.square,
          &o.reciprocal,
          &o.abs,
          &o.sign,
          &o.floor,
          &o.ceil,
          &o.round,
          &o.erf,
          &o.sin,
          &o.cos,
          &o.tanh,
          &o.sigmoid,
          &o.softplus,
          &o.relu,
          &o.leaky_relu,
          &o.elu,
          &o.selu,
          &o.gelu,
          &o.silu,
          &o.hard_sigmoid,
          &o.relu_backward,
          &o.sigmoid_backward,
          &o.tanh_backward,
          &o.gelu_backward};
}

}  // namespace families
}  // namespace lockstep
