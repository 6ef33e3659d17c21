// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/conv.h"

#include <algorithm>

#include "lockstep/ops/conv_attrs.h"
#include "lockstep/ops/cpu/conv.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/spatial.h"

namespace lockstep {
namespace {

using std::int64_t;

const OpDef& conv_op();
const OpDef& conv_backward_data_op();
const OpDef& conv_backward_weights_op();

// Sizes of the three tensors, as far as they are known, and the window in full lists.
struct ConvSizes {
  const char* op;
  std::size_t spatial;
  ConvWindow window;
};

ConvSizes check_window(const char* op, const TensorInfo& input, const ConvWindow& window) {
  const std::size_t spatial = check_spatial_input(op, input);
  if (window.groups < 1 || window.groups > kMostSpatial)
    throw InvalidArgument("{}: groups is {}, expected 1 to {}", op, window.groups, kMostSpatial);
  return {op,
          spatial,
          {check_spatial_list(op, "stride", window.stride, spatial, 1, 1),
           check_spatial_list(op, "padding", window.padding, spatial, 0, 0),
           check_spatial_list(op, "dilation", window.dilation, spatial, 1, 1), window.groups}};
}

void check_dtypes(const InferArgs& args) {
  static constexpr const char* kNames[] = {"input", "weight", "bias"};
  for (std::size_t i = 1; i < args.inputs.size(); ++i)
    if (args.inputs[i].dtype != args.inputs[0].dtype)
      throw InvalidArgument("{}: {} is {}, input is {}", args.op, kNames[i],
                            name_of(args.inputs[i].dtype), name_of(args.inputs[0].dtype));
}

void check_weight(const ConvSizes& sizes, const Shape& weight) {
  if (weight.rank() != static_cast<int>(sizes.spatial) + 2)
    throw InvalidArgument("{}: weight has shape {}, expected {} axes as the input has", sizes.op,
                          weight.str(), sizes.spatial + 2);
  for (std::size_t i = 0; i < sizes.spatial; ++i)
    if (weight[static_cast<int>(i) + 2] < 1)
      throw InvalidArgument("{}: weight has shape {}, expected kernel sizes of at least 1",
                            sizes.op, weight.str());
}

void check_groups(const ConvSizes& sizes, int64_t out_channels) {
  if (out_channels % sizes.window.groups != 0)
    throw InvalidArgument("{}: weight has {} output channels, which {} groups do not divide",
                          sizes.op, out_channels, sizes.window.groups);
}

void check_bias(const InferArgs& args, int64_t channels) {
  if (args.inputs.size() < 3) return;
  const Shape& bias = args.inputs[2].shape;
  if (!(bias == Shape{channels}))
    throw InvalidArgument("{}: bias has shape {}, expected [{}]", args.op, bias.str(), channels);
}

int64_t span_of(const ConvSizes& sizes, std::size_t axis, int64_t kernel) {
  return sizes.window.dilation[axis] * (kernel - 1) + 1;
}

// The output's spatial sizes.
Ints slide(const ConvSizes& sizes, std::span<const int64_t> input,
           std::span<const int64_t> kernel) {
  Ints output;
  for (std::size_t i = 0; i < sizes.spatial; ++i) {
    const int64_t padded = input[i] + 2 * sizes.window.padding[i];
    const int64_t span = span_of(sizes, i, kernel[i]);
    if (span > padded)
      throw InvalidArgument("{}: kernel spans {} along axis {}, padded input has {}", sizes.op,
                            span, i + 2, padded);
    output.push_back((padded - span) / sizes.window.stride[i] + 1);
  }
  return output;
}

std::span<const int64_t> spatial_of(const Shape& shape) { return shape.span().subspan(2); }

TensorInfo with_shape(const TensorInfo& like, int64_t batch, int64_t channels,
                      std::span<const int64_t> spatial) {
  TensorInfo info = like;
  info.shape = Shape{batch, channels};
  for (int64_t size : spatial) info.shape.push_back(size);
  return info;
}

Infos infer_conv(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ConvAttrs>();
  const Shape &x = args.inputs[0].shape, &w = args.inputs[1].shape;
  const ConvSizes sizes = check_window(args.op, args.inputs[0], attrs);
  check_dtypes(args);
  check_weight(sizes, w);
  if (x[1] != w[1] * attrs.groups)
    throw InvalidArgument("{}: weight has {} input channels for {} {}, input has {} channels",
                          args.op, w[1], attrs.groups, attrs.groups == 1 ? "group" : "groups",
                          x[1]);
  check_groups(sizes, w[0]);
  check_bias(args, w[0]);
  if (attrs.activation != "" && attrs.activation != "relu")
    throw InvalidArgument("{}: activation is '{}', expected '' or 'relu'", args.op,
                          attrs.activation);
  return {with_shape(args.inputs[0], x[0], w[0], slide(sizes, spatial_of(x), spatial_of(w)))};
}

// What a transposed convolution's output has where nobody says it.
Ints smallest_input(const ConvSizes& sizes, std::span<const int64_t> output,
                    std::span<const int64_t> kernel, const Ints& output_padding) {
  Ints input;
  for (std::size_t i = 0; i < sizes.spatial; ++i) {
    if (output_padding[i] >= sizes.window.stride[i])
      throw InvalidArgument("{}: output_padding is {} along axis {}, expected less than stride {}",
                            sizes.op, output_padding[i], i + 2, sizes.window.stride[i]);
    input.push_back((output[i] - 1) * sizes.window.stride[i] - 2 * sizes.window.padding[i] +
                    span_of(sizes, i, kernel[i]) + output_padding[i]);
    if (input.back() < 1)
      throw InvalidArgument("{}: the output would have size {} along axis {}", sizes.op,
                            input.back(), i + 2);
  }
  return input;
}

Ints given_input(const ConvSizes& sizes, std::span<const int64_t> output,
                 std::span<const int64_t> kernel, const Ints& given) {
  const Ints input = check_spatial_list(sizes.op, "input_size", given, sizes.spatial, 1, 1);
  const Ints made = slide(sizes, input, kernel);
  if (!std::equal(made.begin(), made.end(), output.begin(), output.end()))
    throw InvalidArgument("{}: an input of size {} gives an output of size {}, gradient has {}",
                          sizes.op, Shape(input).str(), Shape(made).str(), Shape(output).str());
  return input;
}

Infos infer_conv_backward_data(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ConvDataAttrs>();
  const Shape &y = args.inputs[0].shape, &w = args.inputs[1].shape;
  const ConvSizes sizes = check_window(args.op, args.inputs[0], attrs);
  check_dtypes(args);
  check_weight(sizes, w);
  if (y[1] != w[0])
    throw InvalidArgument("{}: weight has shape {}, input has {} channels, expected {}", args.op,
                          w.str(), y[1], w[0]);
  check_groups(sizes, w[0]);
  check_bias(args, w[1] * attrs.groups);
  const Ints padding =
      check_spatial_list(args.op, "output_padding", attrs.output_padding, sizes.spatial, 0, 0);
  const Ints input = attrs.input_size.empty()
                         ? smallest_input(sizes, spatial_of(y), spatial_of(w), padding)
                         : given_input(sizes, spatial_of(y), spatial_of(w), attrs.input_size);
  return {with_shape(args.inputs[0], y[0], w[1] * attrs.groups, input)};
}

Infos infer_conv_backward_weights(const InferArgs& args) {
  const auto& attrs = args.attrs.as<ConvWeightsAttrs>();
  const Shape &x = args.inputs[0].shape, &y = args.inputs[1].shape;
  const ConvSizes sizes = check_window(args.op, args.inputs[0], attrs);
  check_spatial_input(args.op, args.inputs[1]);
  check_dtypes(args);
  const Ints kernel = check_spatial_list(args.op, "kernel", attrs.kernel, sizes.spatial, 1, 1);
  if (x[1] % attrs.groups != 0)
    throw InvalidArgument("{}: input has {} channels, which {} groups do not divide", args.op, x[1],
                          attrs.groups);
  check_groups(sizes, y[1]);
  const TensorInfo made =
      with_shape(args.inputs[0], x[0], y[1], slide(sizes, spatial_of(x), kernel));
  if (!(made.shape == y))
    throw InvalidArgument("{}: gradient has shape {}, expected {}", args.op, y.str(),
                          made.shape.str());
  Infos outputs{with_shape(args.inputs[0], y[1], x[1] / attrs.groups, kernel)};
  if (!attrs.with_bias) return outputs;
  outputs.push_back(args.inputs[0]);
  outputs.back().shape = Shape{y[1]};
  return outputs;
}

Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvWindow& window) {
  const Attrs attrs = Attrs::of(ConvAttrs{window, ""});
  return bias.defined() ? apply_one(conv_op(), {x, w, bias}, attrs)
                        : apply_one(conv_op(), {x, w}, attrs);
}

Tensor backward_data(const Tensor& dy, const Tensor& w, const Tensor& like,
                     const ConvWindow& window) {
  const std::span<const int64_t> size = spatial_of(like.shape());
  return apply_one(conv_backward_data_op(), {dy, w},
                   Attrs::of(ConvDataAttrs{window, Ints(size.begin(), size.end()), {}}));
}

std::vector<Tensor> backward_weights(const Tensor& x, const Tensor& dy, const Tensor& w,
                                     const ConvWindow& window, bool with_bias) {
  const std::span<const int64_t> kernel = spatial_of(w.shape());
  const Tensor inputs[] = {x, dy};
  return apply(conv_backward_weights_op(), inputs,
               Attrs::of(ConvWeightsAttrs{window, Ints(kernel.begin(), kernel.end()), with_bias}));
}

// Over everything but the channels.
Tensor sum_channels(const Tensor& dy) {
  Ints axes{0};
  for (int i = 2; i < dy.rank(); ++i) axes.push_back(i);
  return sum(dy, axes);
}

std::vector<Tensor> gradient_conv(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ConvAttrs>();
  if (!attrs.activation.empty())
    throw Unsupported("conv: with activation '{}' fused there is no gradient", attrs.activation);
  const Tensor &x = args.inputs[0], &w = args.inputs[1];
  std::vector<Tensor> grads(args.inputs.size());
  const bool bias = grads.size() == 3 && args.needs_grad(2);
  if (args.needs_grad(0)) grads[0] = backward_data(args.grad(), w, x, attrs);
  if (args.needs_grad(1)) {
    const std::vector<Tensor> made = backward_weights(x, args.grad(), w, attrs, bias);
    std::copy(made.begin(), made.end(), grads.begin() + 1);
  } else if (bias) {
    grads[2] = sum_channels(args.grad());
  }
  return grads;
}

std::vector<Tensor> gradient_conv_backward_data(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ConvDataAttrs>();
  const Tensor &dy = args.inputs[0], &w = args.inputs[1], &grad = args.grad();
  std::vector<Tensor> grads(args.inputs.size());
  if (args.needs_grad(0)) grads[0] = convolve(grad, w, {}, attrs);
  if (args.needs_grad(1)) grads[1] = backward_weights(grad, dy, w, attrs, false)[0];
  if (grads.size() == 3 && args.needs_grad(2)) grads[2] = sum_channels(grad);
  return grads;
}

// The bias's gradient is dy summed, so its own gradient is spread over dy again.
Tensor spread_channels(const Tensor& grad, const Tensor& dy) {
  Ints shape(static_cast<std::size_t>(dy.rank()), 1);
  shape[1] = grad.shape(0);
  return expand(reshape(grad, shape), dy.shape());
}

std::vector<Tensor> gradient_conv_backward_weights(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<ConvWeightsAttrs>();
  const Tensor &x = args.inputs[0], &dy = args.inputs[1];
  const Tensor& grad_w = args.output_grads[0];
  const Tensor grad_b = attrs.with_bias ? args.output_grads[1] : Tensor();
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0) && grad_w.defined()) grads[0] = backward_data(dy, grad_w, x, attrs);
  if (!args.needs_grad(1)) return grads;
  if (grad_w.defined())
    grads[1] = convolve(x, grad_w, grad_b, attrs);
  else if (grad_b.defined())
    grads[1] = spread_channels(grad_b, dy);
  return grads;
}

constexpr ArgumentDoc kConv[] = {{"x", "floating, [N, C, spatial...]"},
                                 {"weight", "[O, C / groups, kernel...]"},
                                 {"bias", "[O]", Presence::optional}};
constexpr ArgumentDoc kConvOutput[] = {{"y", "[N, O, spatial...]"}};
constexpr ArgumentDoc kTransposed[] = {{"x", "floating, [N, C, spatial...]"},
                                       {"weight", "[C, O / groups, kernel...]"},
                                       {"bias", "[O]", Presence::optional}};
constexpr ArgumentDoc kTransposedOutput[] = {{"y", "[N, O, spatial...]"}};
constexpr ArgumentDoc kData[] = {{"grad", "the output's gradient, [N, O, spatial...]"},
                                 {"weight", "[O, C / groups, kernel...]"},
                                 {"bias", "[C], added to the result", Presence::optional}};
constexpr ArgumentDoc kDataOutput[] = {{"grad_x", "[N, C, spatial...]"}};
constexpr ArgumentDoc kWeights[] = {{"x", "conv's input, [N, C, spatial...]"},
                                    {"grad", "the output's gradient, [N, O, spatial...]"}};
constexpr ArgumentDoc kWeightsOutputs[] = {
    {"grad_weight", "[O, C / groups, kernel...]"},
    {"grad_bias", "[O], with with_bias", Presence::optional}};
constexpr OpDocs kConvDocs{"Convolution (cross-correlation) over 1, 2 or 3 spatial axes.", kConv,
                           kConvOutput};
constexpr OpDocs kConvBackwardDataDocs{"conv's gradient with respect to x.", kData, kDataOutput};
constexpr OpDocs kConvTransposeDocs{
    "Transposed convolution: conv's gradient as a forward op, which makes x larger.", kTransposed,
    kTransposedOutput};
constexpr OpDocs kConvBackwardWeightsDocs{"conv's gradients with respect to weight and bias.",
                                          kWeights, kWeightsOutputs};

const OpDef& conv_op() {
  static const OpDef op{.name = "conv",
                        .docs = kConvDocs,
                        .min_inputs = 2,
                        .max_inputs = 3,
                        .schema = attr_schema<ConvAttrs>(),
                        .infer = infer_conv,
                        .gradient = gradient_conv,
                        .cpu = kernels::conv()};
  return op;
}

OpDef data_op(std::string_view name, const OpDocs& docs) {
  return {.name = name,
          .docs = docs,
          .min_inputs = 2,
          .max_inputs = 3,
          .schema = attr_schema<ConvDataAttrs>(),
          .infer = infer_conv_backward_data,
          .gradient = gradient_conv_backward_data,
          .cpu = kernels::conv_backward_data()};
}

const OpDef& conv_backward_data_op() {
  static const OpDef op = data_op("conv_backward_data", kConvBackwardDataDocs);
  return op;
}

const OpDef& conv_transpose_op() {
  static const OpDef op = data_op("conv_transpose", kConvTransposeDocs);
  return op;
}

const OpDef& conv_backward_weights_op() {
  static const OpDef op{.name = "conv_backward_weights",
                        .docs = kConvBackwardWeightsDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<ConvWeightsAttrs>(),
                        .infer = infer_conv_backward_weights,
                        .gradient = gradient_conv_backward_weights,
                        .cpu = kernels::conv_backward_weights()};
  return op;
}

ConvWindow window_of(const ConvOptions& options) {
  return {options.stride, options.padding, options.dilation, options.groups};
}

}  // namespace

ConvProblem::ConvProblem(const Shape& x, const Shape& weight, const Shape& y,
                         const ConvWindow& window)
    : spatial(static_cast<std::size_t>(x.rank()) - 2),
      batch(x[0]),
      groups(window.groups),
      in_channels(x[1]),
      out_channels(y[1]) {
  const auto fill = [](Sizes& sizes, std::span<const int64_t> values) {
    std::copy(values.begin(), values.end(), sizes.begin());
  };
  fill(input, spatial_of(x));
  fill(kernel, spatial_of(weight));
  fill(output, spatial_of(y));
  fill(stride, spatial_list(window.stride, spatial, 1));
  fill(padding, spatial_list(window.padding, spatial, 0));
  fill(dilation, spatial_list(window.dilation, spatial, 1));
}

Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return convolve(x, weight, bias, window_of(options));
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvOptions& options, const Ints& output_padding) {
  const Attrs attrs = Attrs::of(ConvDataAttrs{window_of(options), {}, output_padding});
  return bias.defined() ? apply_one(conv_transpose_op(), {x, weight, bias}, attrs)
                        : apply_one(conv_transpose_op(), {x, weight}, attrs);
}

namespace families {

Family conv() {
  return {&conv_op(), &conv_transpose_op(), &conv_backward_data_op(), &conv_backward_weights_op()};
}

}  // namespace families
}  // namespace lockstep
