// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/loss.h"

#include "lockstep/ops/class_numbers.h"
#include "lockstep/ops/cpu/loss.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/loss_attrs.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

Shape rows_of(const Shape& logits) {
  Shape rows = logits;
  rows.erase(rows.rank() - 1);
  return rows;
}

void check_logits(const char* op, const TensorInfo& logits) {
  if (!is_floating(logits.dtype))
    throw InvalidArgument("{}: logits are {}, expected a floating dtype", op, logits.str());
  if (logits.shape.rank() == 0 || logits.shape.back() == 0)
    throw InvalidArgument("{}: logits have shape {}, expected a last axis of classes", op,
                          logits.shape.str());
}

void check_labels(const char* op, const TensorInfo& logits, const TensorInfo& labels) {
  const bool dense = is_floating(labels.dtype);
  const Shape expected = dense ? logits.shape : rows_of(logits.shape);
  if (dense ? labels.dtype != logits.dtype : !kIntTypes.has(labels.dtype))
    throw InvalidArgument("{}: labels are {}, expected class numbers or {} probabilities", op,
                          labels.str(), name_of(logits.dtype));
  if (!(labels.shape == expected))
    throw InvalidArgument("{}: labels have shape {}, expected {} for logits of shape {}", op,
                          labels.shape.str(), expected.str(), logits.shape.str());
}

void check_smoothing(const InferArgs& args) {
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().smoothing;
  if (!(smoothing >= 0.0 && smoothing <= 1.0))
    throw InvalidArgument("{}: smoothing is {}, expected 0 to 1", args.op, smoothing);
}

// The log-sum stands in an exponent later, so half precision does not do for it.
DType log_sum_dtype(DType logits) {
  return logits == DType::float64 ? DType::float64 : DType::float32;
}

Infos infer_cross_entropy(const InferArgs& args) {
  const TensorInfo& logits = args.inputs[0];
  check_logits(args.op, logits);
  check_labels(args.op, logits, args.inputs[1]);
  check_smoothing(args);
  const Shape rows = rows_of(logits.shape);
  return {{rows, logits.dtype, logits.device}, {rows, log_sum_dtype(logits.dtype), logits.device}};
}

Infos infer_cross_entropy_backward(const InferArgs& args) {
  const TensorInfo& grad = args.inputs[0];
  const TensorInfo& logits = args.inputs[1];
  check_logits(args.op, logits);
  check_labels(args.op, logits, args.inputs[2]);
  check_smoothing(args);
  const Shape rows = rows_of(logits.shape);
  if (!(grad.shape == rows) || grad.dtype != logits.dtype)
    throw InvalidArgument("{}: gradient is {}, expected {}{}", args.op, grad.str(),
                          name_of(logits.dtype), rows.str());
  const TensorInfo log_sum{rows, log_sum_dtype(logits.dtype), logits.device};
  if (!(args.inputs[3] == log_sum))
    throw InvalidArgument("{}: log_sum is {}, expected {}", args.op, args.inputs[3].str(),
                          log_sum.str());
  return {logits};
}

Infos infer_sigmoid_cross_entropy(const InferArgs& args) {
  const TensorInfo& logits = args.inputs[0];
  const TensorInfo& labels = args.inputs[1];
  if (!is_floating(logits.dtype))
    throw InvalidArgument("{}: logits are {}, expected a floating dtype", args.op, logits.str());
  if (!(logits.shape == labels.shape) || logits.dtype != labels.dtype)
    throw InvalidArgument("{}: labels are {}, expected {} as the logits", args.op, labels.str(),
                          logits.str());
  return {logits};
}

Infos infer_class_numbers(const InferArgs& args) {
  TensorInfo labels = args.inputs[0];
  if (!is_floating(labels.dtype))
    throw InvalidArgument("{}: labels are {}, expected a floating dtype", args.op, labels.str());
  labels.dtype = DType::int64;
  return {labels};
}

const OpDef& cross_entropy_backward_op();

// A value of each row, ready to broadcast against the logits.
Tensor column(const Tensor& rows, DType dtype) {
  const Tensor wide = expand_dims(rows, -1);
  return rows.dtype() == dtype ? wide : cast(wide, dtype);
}

// What log_sum is relative to.
Tensor largest(const Tensor& logits) { return max(logits, {-1}, true); }

Tensor probabilities(const Tensor& logits, const Tensor& log_sum) {
  return exp(logits - largest(logits) - column(log_sum, logits.dtype()));
}

// The gradient of the logits where `rows` is that of the largest of each row: equals share it.
Tensor through_largest(const Tensor& rows, const Tensor& logits) {
  const Tensor hit = cast(equal(logits, largest(logits)), logits.dtype());
  return hit * (column(rows, logits.dtype()) / sum(hit, {-1}, true));
}

// The log-sum, log(sum(exp(x - max(x)))), is an output too, so that gradients of gradients find
// their way through it.
std::vector<Tensor> cross_entropy_gradient(const GradientArgs& args) {
  const Tensor& logits = args.inputs[0];
  const Tensor& labels = args.inputs[1];
  const Tensor& log_sum = args.outputs[1];
  const DType dtype = logits.dtype();
  std::vector<Tensor> grads(2);
  if (args.grad().defined() && args.needs_grad(0))
    grads[0] =
        apply_one(cross_entropy_backward_op(), {args.grad(), logits, labels, log_sum}, args.attrs);
  if (args.output_grads[1].defined() && args.needs_grad(0)) {
    const Tensor& rows = args.output_grads[1];
    const Tensor through =
        column(rows, dtype) * probabilities(logits, log_sum) - through_largest(rows, logits);
    grads[0] = grads[0].defined() ? grads[0] + through : through;
  }
  if (args.grad().defined() && args.needs_grad(1) && is_floating(labels.dtype())) {
    const double keep = 1.0 - args.attrs.as<CrossEntropyAttrs>().smoothing;
    grads[1] =
        column(args.grad() * keep, dtype) * (column(log_sum, dtype) - (logits - largest(logits)));
  }
  return grads;
}

// Of g * (mass * exp(x - max(x) - l) - (1 - s) * t - s / C), where mass = (1 - s) * sum(t) + s.
std::vector<Tensor> cross_entropy_backward_gradient(const GradientArgs& args) {
  const Tensor& g = args.inputs[0];
  const Tensor& logits = args.inputs[1];
  const Tensor& labels = args.inputs[2];
  const Tensor& log_sum = args.inputs[3];
  const Tensor& h = args.grad();
  const double smoothing = args.attrs.as<CrossEntropyAttrs>().smoothing;
  const bool dense = is_floating(labels.dtype());
  std::vector<Tensor> grads(4);
  if (args.needs_grad(0))
    grads[0] = sum(h * apply_one(cross_entropy_backward_op(),
                                 {ones_like(g), logits, labels, log_sum}, args.attrs),
                   {-1});
  const Tensor p = probabilities(logits, log_sum);
  const Tensor weight = column(g, g.dtype());
  if (args.needs_grad(1) || args.needs_grad(3)) {
    Tensor pulled = h * p * weight;
    if (dense) pulled = pulled * (sum(labels, {-1}, true) * (1.0 - smoothing) + smoothing);
    const Tensor total = sum(pulled, {-1});
    grads[1] = pulled - through_largest(total, logits);
    grads[3] = cast(negative(total), log_sum.dtype());
  }
  if (args.needs_grad(2) && dense)
    grads[2] = (sum(h * p, {-1}, true) - h) * weight * (1.0 - smoothing);
  return grads;
}

std::vector<Tensor> sigmoid_cross_entropy_gradient(const GradientArgs& args) {
  const Tensor& logits = args.inputs[0];
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0)) grads[0] = args.grad() * (sigmoid(logits) - args.inputs[1]);
  if (args.needs_grad(1)) grads[1] = negative(args.grad() * logits);
  return grads;
}

constexpr ArgumentDoc kCrossEntropy[] = {
    {"logits", "floating, [..., C]"}, {"labels", "class numbers [...], or probabilities [..., C]"}};
constexpr ArgumentDoc kCrossEntropyOutputs[] = {
    {"loss", "[...], one for each row"},
    {"log_sum", "log(sum(exp(logits - max))) of each row, for the backward pass"}};
constexpr ArgumentDoc kCrossEntropyGrad[] = {{"grad", "the loss's gradient"},
                                             {"logits", "softmax_cross_entropy's first input"},
                                             {"labels", "softmax_cross_entropy's second input"},
                                             {"log_sum", "softmax_cross_entropy's second output"}};
constexpr ArgumentDoc kGradLogits[] = {{"grad_logits", "of logits' shape"}};
constexpr ArgumentDoc kSigmoid[] = {{"logits", "floating"}, {"labels", "of logits' shape, 0 to 1"}};
constexpr ArgumentDoc kSigmoidOutput[] = {{"loss", "of logits' shape"}};
constexpr ArgumentDoc kFloatLabels[] = {{"labels", "floating; whole numbers"}};
constexpr ArgumentDoc kClassNumbers[] = {{"numbers", "int64, of labels' shape"}};
constexpr OpDocs kClassNumbersDocs{
    "Class numbers of labels that are floats; refuses those that are no whole number.",
    kFloatLabels, kClassNumbers};
constexpr OpDocs kSoftmaxCrossEntropyDocs{
    "-log of the probability that softmax(logits) gives the label, for each row.", kCrossEntropy,
    kCrossEntropyOutputs};
constexpr OpDocs kSoftmaxCrossEntropyBackwardDocs{
    "softmax_cross_entropy's gradient: probabilities minus labels.", kCrossEntropyGrad,
    kGradLogits};
constexpr OpDocs kSigmoidCrossEntropyDocs{
    "-log of the probability that sigmoid(logits) gives the label, for each element.", kSigmoid,
    kSigmoidOutput};

const OpDef& cross_entropy_op() {
  static const OpDef op{.name = "softmax_cross_entropy",
                        .docs = kSoftmaxCrossEntropyDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<CrossEntropyAttrs>(),
                        .promotion = Promotion::floats_like_first,
                        .infer = infer_cross_entropy,
                        .gradient = cross_entropy_gradient,
                        .cpu = kernels::softmax_cross_entropy_kernels()};
  return op;
}

const OpDef& cross_entropy_backward_op() {
  static const OpDef op{.name = "softmax_cross_entropy_backward",
                        .docs = kSoftmaxCrossEntropyBackwardDocs,
                        .min_inputs = 4,
                        .max_inputs = 4,
                        .schema = attr_schema<CrossEntropyAttrs>(),
                        .infer = infer_cross_entropy_backward,
                        .gradient = cross_entropy_backward_gradient,
                        .cpu = kernels::softmax_cross_entropy_backward_kernels()};
  return op;
}

const OpDef& sigmoid_cross_entropy_op() {
  static const OpDef op{.name = "sigmoid_cross_entropy",
                        .docs = kSigmoidCrossEntropyDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .kind = OpKind::elementwise,
                        .promotion = Promotion::like_first,
                        .infer = infer_sigmoid_cross_entropy,
                        .gradient = sigmoid_cross_entropy_gradient,
                        .cpu = kernels::sigmoid_cross_entropy_kernels()};
  return op;
}

const OpDef& class_numbers_op() {
  static const OpDef op{.name = "class_numbers",
                        .docs = kClassNumbersDocs,
                        .infer = infer_class_numbers,
                        .cpu = kernels::class_numbers_kernels()};
  return op;
}

}  // namespace

Tensor detail::class_numbers(const Tensor& labels) {
  check_defined("class_numbers", labels);
  return is_floating(labels.dtype()) ? apply_one(class_numbers_op(), {labels}) : labels;
}

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing) {
  return apply_one_promoted(cross_entropy_op(), {logits, labels},
                            Attrs::of(CrossEntropyAttrs{smoothing}));
}

Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels) {
  return apply_one_promoted(sigmoid_cross_entropy_op(), {logits, labels});
}

namespace families {

Family loss() {
  return {&cross_entropy_op(), &cross_entropy_backward_op(), &sigmoid_cross_entropy_op(),
          &class_numbers_op()};
}

}  // namespace families
}  // namespace lockstep
