// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/softmax.h"

#include "lockstep/ops/cpu/softmax.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/softmax_attrs.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

Infos infer_softmax(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  if (!is_floating(x.dtype))
    throw InvalidArgument("{}: input is {}, expected a floating dtype", args.op, x.str());
  normalize_axis(args.op, args.attrs.as<SoftmaxAttrs>().axis, x.shape.rank());
  return {x};
}

Infos infer_backward(const InferArgs& args) {
  const TensorInfo& grad = args.inputs[0];
  const TensorInfo& y = args.inputs[1];
  if (!(grad.shape == y.shape) || grad.dtype != y.dtype)
    throw InvalidArgument("{}: gradient is {}, output is {}, expected the same", args.op,
                          grad.str(), y.str());
  return infer_softmax(args);
}

const OpDef& softmax_backward_op();
const OpDef& log_softmax_backward_op();

std::vector<Tensor> softmax_gradient(const GradientArgs& args) {
  return {apply_one(softmax_backward_op(), {args.grad(), args.outputs[0]}, args.attrs)};
}

std::vector<Tensor> log_softmax_gradient(const GradientArgs& args) {
  return {apply_one(log_softmax_backward_op(), {args.grad(), args.outputs[0]}, args.attrs)};
}

// Of y * (g - sum(g * y)); the Jacobian of softmax is symmetric, so g's part is the op itself.
std::vector<Tensor> softmax_backward_gradient(const GradientArgs& args) {
  const Ints axis{args.attrs.as<SoftmaxAttrs>().axis};
  const Tensor& g = args.inputs[0];
  const Tensor& y = args.inputs[1];
  const Tensor& h = args.grad();
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0)) grads[0] = apply_one(softmax_backward_op(), {h, y}, args.attrs);
  if (args.needs_grad(1)) grads[1] = h * (g - sum(g * y, axis, true)) - g * sum(h * y, axis, true);
  return grads;
}

// Of g - exp(y) * sum(g).
std::vector<Tensor> log_softmax_backward_gradient(const GradientArgs& args) {
  const Ints axis{args.attrs.as<SoftmaxAttrs>().axis};
  const Tensor& g = args.inputs[0];
  const Tensor& h = args.grad();
  const Tensor weighted = h * exp(args.inputs[1]);
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0)) grads[0] = h - sum(weighted, axis, true);
  if (args.needs_grad(1)) grads[1] = negative(weighted * sum(g, axis, true));
  return grads;
}

constexpr ArgumentDoc kLogits[] = {{"x", "floating"}};
constexpr ArgumentDoc kSoftmaxOutput[] = {{"y", "of x's shape"}};
constexpr ArgumentDoc kSoftmaxGrad[] = {{"grad", "the output's gradient"},
                                        {"y", "what the forward op gave"}};
constexpr ArgumentDoc kGradX[] = {{"grad_x", "of y's shape"}};
constexpr OpDocs kSoftmaxDocs{"exp(x) / sum(exp(x)) along an axis: positive numbers that sum to 1.",
                              kLogits, kSoftmaxOutput};
constexpr OpDocs kLogSoftmaxDocs{"The logarithm of softmax, exact where softmax itself is near 0.",
                                 kLogits, kSoftmaxOutput};
constexpr OpDocs kSoftmaxBackwardDocs{"softmax's gradient: y * (grad - sum(grad * y)).",
                                      kSoftmaxGrad, kGradX};
constexpr OpDocs kLogSoftmaxBackwardDocs{"log_softmax's gradient: grad - exp(y) * sum(grad).",
                                         kSoftmaxGrad, kGradX};

const OpDef& softmax_op() {
  static const OpDef op{.name = "softmax",
                        .docs = kSoftmaxDocs,
                        .schema = attr_schema<SoftmaxAttrs>(),
                        .infer = infer_softmax,
                        .gradient = softmax_gradient,
                        .cpu = kernels::softmax_kernels()};
  return op;
}

const OpDef& log_softmax_op() {
  static const OpDef op{.name = "log_softmax",
                        .docs = kLogSoftmaxDocs,
                        .schema = attr_schema<SoftmaxAttrs>(),
                        .infer = infer_softmax,
                        .gradient = log_softmax_gradient,
                        .cpu = kernels::log_softmax_kernels()};
  return op;
}

const OpDef& softmax_backward_op() {
  static const OpDef op{.name = "softmax_backward",
                        .docs = kSoftmaxBackwardDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<SoftmaxAttrs>(),
                        .infer = infer_backward,
                        .gradient = softmax_backward_gradient,
                        .cpu = kernels::softmax_backward_kernels()};
  return op;
}

const OpDef& log_softmax_backward_op() {
  static const OpDef op{.name = "log_softmax_backward",
                        .docs = kLogSoftmaxBackwardDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<SoftmaxAttrs>(),
                        .infer = infer_backward,
                        .gradient = log_softmax_backward_gradient,
                        .cpu = kernels::log_softmax_backward_kernels()};
  return op;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return apply_one(softmax_op(), {x}, Attrs::of(SoftmaxAttrs{axis}));
}

Tensor log_softmax(const Tensor& x, int axis) {
  return apply_one(log_softmax_op(), {x}, Attrs::of(SoftmaxAttrs{axis}));
}

namespace families {

Family softmax() {
  return {&softmax_op(), &log_softmax_op(), &softmax_backward_op(), &log_softmax_backward_op()};
}

}  // namespace families
}  // namespace lockstep
