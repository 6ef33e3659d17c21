// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/norm.h"

#include <algorithm>

#include "lockstep/ops/cpu/norm.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/shard_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

void check_like(const char* op, const char* name, const TensorInfo& got, const Shape& shape,
                const TensorInfo& x) {
  if (!(got.shape == shape))
    throw InvalidArgument("{}: {} has shape {}, expected {}", op, name, got.shape.str(),
                          shape.str());
  if (got.dtype != x.dtype)
    throw InvalidArgument("{}: {} is {}, x is {}", op, name, name_of(got.dtype), name_of(x.dtype));
}

void check_epsilon(const char* op, double epsilon) {
  if (!(epsilon >= 0)) throw InvalidArgument("{}: epsilon is {}, expected at least 0", op, epsilon);
}

void check_channels(const char* op, const TensorInfo& x) {
  detail::check_floating(op, x);
  if (x.shape.rank() < 2)
    throw InvalidArgument("{}: x has shape {}, expected [N, C, ...]", op, x.shape.str());
}

// Every axis but the channels'.
Ints other_axes(const Tensor& x) {
  Ints axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1) axes.push_back(i);
  return axes;
}

// How many elements share one mean.
double count_of(const Tensor& x) {
  const std::int64_t channels = std::max<std::int64_t>(x.shape(1), 1);
  return static_cast<double>(std::max<std::int64_t>(x.numel() / channels, 1));
}

// [C] as [1, C, 1, ...], so that it broadcasts against x.
Tensor per_channel(const Tensor& v, const Tensor& x) {
  Ints shape(static_cast<std::size_t>(x.rank()), 1);
  shape[1] = v.numel();
  return reshape(v, shape);
}

Tensor sum_channels(const Tensor& x) { return sum(x, other_axes(x)); }

Infos infer_batch_norm(const InferArgs& args) {
  const BatchNormAttrs& attrs = args.attrs.as<BatchNormAttrs>();
  const TensorInfo& x = args.inputs[0];
  check_channels(args.op, x);
  check_epsilon(args.op, attrs.epsilon);
  const Shape channels{x.shape[1]};
  check_like(args.op, "gamma", args.inputs[1], channels, x);
  check_like(args.op, "beta", args.inputs[2], channels, x);
  const TensorInfo statistics{channels, x.dtype, x.device};
  Infos out{x, statistics, statistics};
  if (attrs.relu) out.push_back({x.shape, DType::uint8, x.device});
  return out;
}

Infos infer_batch_norm_backward(const InferArgs& args) {
  const BatchNormAttrs& attrs = args.attrs.as<BatchNormAttrs>();
  const TensorInfo& x = args.inputs[1];
  check_channels(args.op, x);
  check_epsilon(args.op, attrs.epsilon);
  const Shape channels{x.shape[1]};
  check_like(args.op, "dy", args.inputs[0], x.shape, x);
  check_like(args.op, "gamma", args.inputs[2], channels, x);
  check_like(args.op, "mean", args.inputs[3], channels, x);
  check_like(args.op, "var", args.inputs[4], channels, x);
  if (attrs.relu != (args.inputs.size() == 6))
    throw InvalidArgument("{}: a workspace goes with relu and only with it", args.op);
  if (attrs.relu && !(args.inputs[5] == TensorInfo{x.shape, DType::uint8, x.device}))
    throw InvalidArgument("{}: workspace is {}, expected uint8{}", args.op, args.inputs[5].str(),
                          x.shape.str());
  const TensorInfo scale{channels, x.dtype, x.device};
  return {x, scale, scale};
}

Infos infer_batch_norm_inference(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  check_channels(args.op, x);
  check_epsilon(args.op, args.attrs.as<EpsilonAttrs>().epsilon);
  const char* names[] = {"x", "gamma", "beta", "mean", "var"};
  for (std::size_t i = 1; i < 5; ++i)
    check_like(args.op, names[i], args.inputs[i], {x.shape[1]}, x);
  return {x};
}

const OpDef& batch_norm_backward_op();

std::vector<Tensor> batch_norm_gradient(const GradientArgs& args) {
  const BatchNormAttrs& attrs = args.attrs.as<BatchNormAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor& batch_mean = args.outputs[1];
  std::vector<Tensor> grads(3);
  if (args.grad()) {
    std::vector<Tensor> inputs{args.grad(), x, args.inputs[1], batch_mean, args.outputs[2]};
    if (attrs.relu) inputs.push_back(args.outputs[3]);
    grads = apply(batch_norm_backward_op(), inputs, args.attrs);
  }
  const auto add_to_dx = [&](const Tensor& part) {
    grads[0] = grads[0] ? add(grads[0], part) : part;
  };
  if (const Tensor& g = args.output_grads[1])
    add_to_dx(expand(divide(per_channel(g, x), count_of(x)), x.shape()));
  if (const Tensor& g = args.output_grads[2])
    add_to_dx(multiply(subtract(x, per_channel(batch_mean, x)),
                       multiply(per_channel(g, x), 2.0 / count_of(x))));
  return grads;
}

std::vector<Tensor> batch_norm_decompose(std::span<const Tensor> inputs, const Attrs& attrs) {
  const BatchNormAttrs& norm = attrs.as<BatchNormAttrs>();
  const Tensor& x = inputs[0];
  const Tensor batch_mean = divide(sum_channels(x), count_of(x));
  const Tensor centred = subtract(x, per_channel(batch_mean, x));
  const Tensor batch_var = divide(sum_channels(square(centred)), count_of(x));
  const Tensor scale = multiply(rsqrt(add(batch_var, norm.epsilon)), inputs[1]);
  Tensor y = add(multiply(centred, per_channel(scale, x)), per_channel(inputs[2], x));
  if (!norm.relu) return {y, batch_mean, batch_var};
  return {relu(y), batch_mean, batch_var, cast(logical_not(less_equal(y, 0.0)), DType::uint8)};
}

std::vector<Tensor> batch_norm_backward_decompose(std::span<const Tensor> inputs,
                                                  const Attrs& attrs) {
  const BatchNormAttrs& norm = attrs.as<BatchNormAttrs>();
  const Tensor& x = inputs[1];
  Tensor dy = inputs[0];
  if (norm.relu) dy = where(not_equal(inputs[5], 0.0), dy, zeros_like(dy));
  const Tensor rstd = rsqrt(add(inputs[4], norm.epsilon));
  const Tensor xhat = multiply(subtract(x, per_channel(inputs[3], x)), per_channel(rstd, x));
  const Tensor dbeta = sum_channels(dy);
  const Tensor dgamma = sum_channels(multiply(dy, xhat));
  const double n = count_of(x);
  const Tensor inner = subtract(
      dy, add(multiply(xhat, per_channel(divide(dgamma, n), x)), per_channel(divide(dbeta, n), x)));
  return {multiply(inner, per_channel(multiply(rstd, inputs[2]), x)), dgamma, dbeta};
}

std::vector<Tensor> batch_norm_inference_decompose(std::span<const Tensor> inputs,
                                                   const Attrs& attrs) {
  const Tensor& x = inputs[0];
  const Tensor scale = multiply(rsqrt(add(inputs[4], attrs.as<EpsilonAttrs>().epsilon)), inputs[1]);
  const Tensor centred = subtract(x, per_channel(inputs[3], x));
  return {add(multiply(centred, per_channel(scale, x)), per_channel(inputs[2], x))};
}

constexpr ArgumentDoc kBatchNorm[] = {
    {"x", "floating, [N, C, ...]"}, {"gamma", "[C]: the scale"}, {"beta", "[C]: the offset"}};
constexpr ArgumentDoc kBatchNormOutputs[] = {
    {"y", "of x's shape"},
    {"mean", "[C], of this batch"},
    {"var", "[C], of this batch, divided by n"},
    {"workspace", "uint8, where relu let y pass; with relu", Presence::optional}};
constexpr ArgumentDoc kBatchNormGrad[] = {
    {"grad", "y's gradient"},
    {"x", "batch_norm's input"},
    {"gamma", "[C]: the scale"},
    {"mean", "batch_norm's second output"},
    {"var", "batch_norm's third output"},
    {"workspace", "batch_norm's fourth output, with relu", Presence::optional}};
constexpr ArgumentDoc kNormGrads[] = {{"grad_x", "of x's shape"},
                                      {"grad_gamma", "of gamma's shape"},
                                      {"grad_beta", "of beta's shape"}};
constexpr ArgumentDoc kInference[] = {{"x", "floating, [N, C, ...]"},
                                      {"gamma", "[C]: the scale"},
                                      {"beta", "[C]: the offset"},
                                      {"mean", "[C], from training"},
                                      {"var", "[C], from training"}};
constexpr ArgumentDoc kInferenceOutput[] = {{"y", "of x's shape"}};
constexpr OpDocs kBatchNormDocs{
    "Normalises each channel by the batch's mean and variance, then gamma * x + beta.", kBatchNorm,
    kBatchNormOutputs};
constexpr OpDocs kBatchNormBackwardDocs{"batch_norm's gradients.", kBatchNormGrad, kNormGrads};
constexpr OpDocs kBatchNormInferenceDocs{
    "Normalises each channel by statistics from training, then gamma * x + beta.", kInference,
    kInferenceOutput};

const OpDef& batch_norm_op() {
  static const OpDef op{.name = "batch_norm",
                        .docs = kBatchNormDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .schema = attr_schema<BatchNormAttrs>(),
                        .infer = infer_batch_norm,
                        .gradient = batch_norm_gradient,
                        .decompose = batch_norm_decompose,
                        .cpu = kernels::batch_norm_kernels()};
  return op;
}

const OpDef& batch_norm_backward_op() {
  static const OpDef op{.name = "batch_norm_backward",
                        .docs = kBatchNormBackwardDocs,
                        .min_inputs = 5,
                        .max_inputs = 6,
                        .schema = attr_schema<BatchNormAttrs>(),
                        .infer = infer_batch_norm_backward,
                        .decompose = batch_norm_backward_decompose,
                        .cpu = kernels::batch_norm_backward_kernels()};
  return op;
}

const OpDef& batch_norm_inference_op() {
  static const OpDef op{.name = "batch_norm_inference",
                        .docs = kBatchNormInferenceDocs,
                        .min_inputs = 5,
                        .max_inputs = 5,
                        .schema = attr_schema<EpsilonAttrs>(),
                        .infer = infer_batch_norm_inference,
                        .decompose = batch_norm_inference_decompose,
                        .cpu = kernels::batch_norm_inference_kernels()};
  return op;
}

// The shape without its last axis: one entry a row.
Shape rows_shape(const Shape& x) {
  return Shape(x.span().first(static_cast<std::size_t>(x.rank() - 1)));
}

void check_rows(const char* op, const TensorInfo& x) {
  detail::check_floating(op, x);
  if (x.shape.rank() < 1) throw InvalidArgument("{}: x is a scalar, expected at least 1 axis", op);
}

Infos infer_layer_norm(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  check_rows(args.op, x);
  check_epsilon(args.op, args.attrs.as<EpsilonAttrs>().epsilon);
  check_like(args.op, "gamma", args.inputs[1], {x.shape.back()}, x);
  check_like(args.op, "beta", args.inputs[2], {x.shape.back()}, x);
  const TensorInfo statistics{rows_shape(x.shape), x.dtype, x.device};
  return {x, statistics, statistics};
}

Infos infer_layer_norm_backward(const InferArgs& args) {
  const TensorInfo& x = args.inputs[1];
  check_rows(args.op, x);
  check_like(args.op, "dy", args.inputs[0], x.shape, x);
  check_like(args.op, "gamma", args.inputs[2], {x.shape.back()}, x);
  check_like(args.op, "mean", args.inputs[3], rows_shape(x.shape), x);
  check_like(args.op, "rstd", args.inputs[4], rows_shape(x.shape), x);
  const TensorInfo scale{{x.shape.back()}, x.dtype, x.device};
  return {x, scale, scale};
}

Tensor per_row(const Tensor& v) { return expand_dims(v, v.rank()); }

double row_size(const Tensor& x) {
  return static_cast<double>(std::max<std::int64_t>(x.shape().back(), 1));
}

Tensor row_mean(const Tensor& x) { return divide(sum(x, {-1}, true), row_size(x)); }

Tensor sum_rows(const Tensor& x) { return sum_to(x, {x.shape().back()}); }

const OpDef& layer_norm_backward_op();

std::vector<Tensor> layer_norm_gradient(const GradientArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& x_mean = args.outputs[1];
  const Tensor& rstd = args.outputs[2];
  std::vector<Tensor> grads(3);
  if (args.grad()) {
    const Tensor inputs[] = {args.grad(), x, args.inputs[1], x_mean, rstd};
    grads = apply(layer_norm_backward_op(), inputs);
  }
  const auto add_to_dx = [&](const Tensor& part) {
    grads[0] = grads[0] ? add(grads[0], part) : part;
  };
  if (const Tensor& g = args.output_grads[1])
    add_to_dx(expand(divide(per_row(g), row_size(x)), x.shape()));
  if (const Tensor& g = args.output_grads[2]) {
    const Tensor slope = multiply(multiply(g, multiply(square(rstd), rstd)), -1.0 / row_size(x));
    add_to_dx(multiply(subtract(x, per_row(x_mean)), per_row(slope)));
  }
  return grads;
}

std::vector<Tensor> layer_norm_decompose(std::span<const Tensor> inputs, const Attrs& attrs) {
  const Tensor& x = inputs[0];
  const Tensor x_mean = row_mean(x);
  const Tensor centred = subtract(x, x_mean);
  const Tensor rstd = rsqrt(add(row_mean(square(centred)), attrs.as<EpsilonAttrs>().epsilon));
  const Tensor y = add(multiply(multiply(centred, rstd), inputs[1]), inputs[2]);
  return {y, squeeze(x_mean, {-1}), squeeze(rstd, {-1})};
}

std::vector<Tensor> layer_norm_backward_decompose(std::span<const Tensor> inputs, const Attrs&) {
  const Tensor& dy = inputs[0];
  const Tensor rstd = per_row(inputs[4]);
  const Tensor xhat = multiply(subtract(inputs[1], per_row(inputs[3])), rstd);
  const Tensor dxhat = multiply(dy, inputs[2]);
  const Tensor inner =
      subtract(dxhat, add(row_mean(dxhat), multiply(xhat, row_mean(multiply(dxhat, xhat)))));
  return {multiply(inner, rstd), sum_rows(multiply(dy, xhat)), sum_rows(dy)};
}

constexpr ArgumentDoc kLayerNorm[] = {
    {"x", "floating, [..., D]"}, {"gamma", "[D]: the scale"}, {"beta", "[D]: the offset"}};
constexpr ArgumentDoc kLayerNormOutputs[] = {{"y", "of x's shape"},
                                             {"mean", "of each row"},
                                             {"rstd", "1 / sqrt(variance + epsilon) of each row"}};
constexpr ArgumentDoc kLayerNormGrad[] = {{"grad", "y's gradient"},
                                          {"x", "layer_norm's input"},
                                          {"gamma", "[D]: the scale"},
                                          {"mean", "layer_norm's second output"},
                                          {"rstd", "layer_norm's third output"}};
constexpr OpDocs kLayerNormDocs{
    "Normalises each row of the last axis to mean 0 and variance 1, then gamma * x + beta.",
    kLayerNorm, kLayerNormOutputs};
constexpr OpDocs kLayerNormBackwardDocs{"layer_norm's gradients.", kLayerNormGrad, kNormGrads};

const OpDef& layer_norm_op() {
  static const OpDef op{.name = "layer_norm",
                        .docs = kLayerNormDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .schema = attr_schema<EpsilonAttrs>(),
                        .infer = infer_layer_norm,
                        .gradient = layer_norm_gradient,
                        .decompose = layer_norm_decompose,
                        .cpu = kernels::layer_norm_kernels()};
  return op;
}

const OpDef& layer_norm_backward_op() {
  static const OpDef op{.name = "layer_norm_backward",
                        .docs = kLayerNormBackwardDocs,
                        .min_inputs = 5,
                        .max_inputs = 5,
                        .infer = infer_layer_norm_backward,
                        .decompose = layer_norm_backward_decompose,
                        .cpu = kernels::layer_norm_backward_kernels()};
  return op;
}

// Groups of channels are rows to layer_norm; the scale for each channel comes after.
Tensor grouped_norm(const char* op, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                    std::int64_t groups, double epsilon) {
  detail::check_defined(op, gamma, 1);
  detail::check_defined(op, beta, 2);
  check_channels(op, x.info());
  const std::int64_t channels = x.shape(1);
  if (groups < 1 || channels % groups != 0)
    throw InvalidArgument("{}: {} channels do not divide into {} groups", op, channels, groups);
  check_like(op, "gamma", gamma.info(), {channels}, x.info());
  check_like(op, "beta", beta.info(), {channels}, x.info());
  const std::int64_t rows = x.shape(0) * groups;
  const std::int64_t size = rows == 0 ? 0 : x.numel() / rows;
  const Tensor normal = layer_norm(reshape(x, {rows, size}), ones({size}, x.dtype(), x.device()),
                                   zeros({size}, x.dtype(), x.device()), epsilon);
  return add(multiply(reshape(normal, x.shape().vector()), per_channel(gamma, x)),
             per_channel(beta, x));
}

}  // namespace

BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                           double epsilon) {
  const Tensor inputs[] = {x, gamma, beta};
  const auto out = apply(batch_norm_op(), inputs, Attrs::of(BatchNormAttrs{epsilon, false}));
  return {out[0], out[1], out[2]};
}

Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                            const Tensor& mean, const Tensor& var, double epsilon) {
  return apply_one(batch_norm_inference_op(), {x, gamma, beta, mean, var},
                   Attrs::of(EpsilonAttrs{epsilon}));
}

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return apply_one(layer_norm_op(), {x, gamma, beta}, Attrs::of(EpsilonAttrs{epsilon}));
}

Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int groups,
                  double epsilon) {
  detail::check_defined("group_norm", x);
  return grouped_norm("group_norm", x, gamma, beta, groups, epsilon);
}

Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  detail::check_defined("instance_norm", x);
  const std::int64_t channels = x.rank() < 2 ? 1 : std::max<std::int64_t>(x.shape(1), 1);
  return grouped_norm("instance_norm", x, gamma, beta, channels, epsilon);
}

namespace families {

Family norm() {
  return {&batch_norm_op(), &batch_norm_backward_op(), &batch_norm_inference_op(),
          &layer_norm_op(), &layer_norm_backward_op(), &shard_mean_op()};
}

}  // namespace families
}  // namespace lockstep
