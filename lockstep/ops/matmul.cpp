// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/matmul.h"

#include <algorithm>

#include "lockstep/ops/cpu/matmul.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

void check_same_dtype(const char* op, const char* a_name, const TensorInfo& a, const char* b_name,
                      const TensorInfo& b) {
  if (a.dtype != b.dtype)
    throw InvalidArgument("{}: {} is {}, {} is {}", op, a_name, name_of(a.dtype), b_name,
                          name_of(b.dtype));
}

void check_matmul(const char* op, const TensorInfo& a, const TensorInfo& b) {
  check_same_dtype(op, "a", a, "b", b);
  if (a.dtype == DType::boolean) throw InvalidArgument("{}: takes numbers, got bool", op);
  if (a.shape.rank() == 0 || b.shape.rank() == 0)
    throw InvalidArgument("{}: a scalar is not a matrix: a has shape {}, b has shape {}", op,
                          a.shape.str(), b.shape.str());
}

Infos infer_matmul(const InferArgs& args) {
  const TensorInfo& a = args.inputs[0];
  const TensorInfo& b = args.inputs[1];
  check_matmul(args.op, a, b);
  const MatmulAttrs& attrs = args.attrs.as<MatmulAttrs>();
  const bool row = a.shape.rank() == 1;
  const bool column = b.shape.rank() == 1;
  const int ar = a.shape.rank();
  const int br = b.shape.rank();
  const std::int64_t inner_a = row || !attrs.transpose_a ? a.shape[ar - 1] : a.shape[ar - 2];
  const std::int64_t inner_b = column || attrs.transpose_b ? b.shape[br - 1] : b.shape[br - 2];
  if (inner_a != inner_b)
    throw InvalidArgument("{}: a has shape {}{}, b has shape {}{}: inner sizes {} and {} differ",
                          args.op, a.shape.str(), attrs.transpose_a && !row ? " (transposed)" : "",
                          b.shape.str(), attrs.transpose_b && !column ? " (transposed)" : "",
                          inner_a, inner_b);
  const Shape batch_a(a.shape.span().first(static_cast<std::size_t>(std::max(ar - 2, 0))));
  const Shape batch_b(b.shape.span().first(static_cast<std::size_t>(std::max(br - 2, 0))));
  Shape out = broadcast_shapes(args.op, batch_a, batch_b);
  if (!row) out.push_back(a.shape[attrs.transpose_a ? ar - 1 : ar - 2]);
  if (!column) out.push_back(b.shape[attrs.transpose_b ? br - 2 : br - 1]);
  return {{out, a.dtype, a.device}};
}

Ints ints_of(const Shape& shape) { return shape.vector(); }

// The last axes joined with all before them: one tall matrix.
Tensor tall(const Tensor& x) { return x.rank() == 2 ? x : reshape(x, {-1, x.shape().back()}); }

Tensor matmul_grad_a(const Tensor& g, const Tensor& a, const Tensor& b, const MatmulAttrs& attrs) {
  Tensor grad = attrs.transpose_a ? matmul(b, g, attrs.transpose_b, true)
                                  : matmul(g, b, false, !attrs.transpose_b);
  return sum_to(grad, a.shape());
}

// When one b serves a whole batch, the sum over the batch is part of the product.
Tensor matmul_grad_b(const Tensor& g, const Tensor& a, const Tensor& b, const MatmulAttrs& attrs) {
  if (b.rank() == 2 && a.rank() > 2 && !attrs.transpose_a && g.numel() > 0)
    return attrs.transpose_b ? matmul(tall(g), tall(a), true, false)
                             : matmul(tall(a), tall(g), true, false);
  Tensor grad = attrs.transpose_b ? matmul(g, a, true, attrs.transpose_a)
                                  : matmul(a, g, !attrs.transpose_a, false);
  return sum_to(grad, b.shape());
}

std::vector<Tensor> matmul_gradient(const GradientArgs& args) {
  MatmulAttrs attrs = args.attrs.as<MatmulAttrs>();
  Tensor a = args.inputs[0];
  Tensor b = args.inputs[1];
  Tensor g = args.grad();
  const bool row = a.rank() == 1;
  const bool column = b.rank() == 1;
  if (column) {
    b = expand_dims(b, 1);
    g = expand_dims(g, g.rank());
    attrs.transpose_b = false;
  }
  if (row) {
    a = expand_dims(a, 0);
    g = expand_dims(g, g.rank() - 1);
    attrs.transpose_a = false;
  }
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0)) grads[0] = matmul_grad_a(g, a, b, attrs);
  if (args.needs_grad(1)) grads[1] = matmul_grad_b(g, a, b, attrs);
  if (row && grads[0]) grads[0] = reshape(grads[0], ints_of(args.inputs[0].shape()));
  if (column && grads[1]) grads[1] = reshape(grads[1], ints_of(args.inputs[1].shape()));
  return grads;
}

constexpr ArgumentDoc kProduct[] = {{"a", "[..., M, K]; one axis alone is a row"},
                                    {"b", "[..., K, N]; one axis alone is a column"}};
constexpr ArgumentDoc kProductOutput[] = {{"y", "[..., M, N]"}};
constexpr ArgumentDoc kDense[] = {{"x", "floating, [N, ...]"},
                                  {"weight", "[units, features]"},
                                  {"bias", "[units]", Presence::optional}};
constexpr ArgumentDoc kDenseOutput[] = {
    {"y", "[N, units]; not flattened: x with units for its last size"}};
constexpr ArgumentDoc kDenseData[] = {{"grad", "the output's gradient"},
                                      {"weight", "[units, features]"}};
constexpr ArgumentDoc kDenseDataOutput[] = {{"grad_x", "of shape x_shape"}};
constexpr ArgumentDoc kDenseWeights[] = {{"x", "dense's input"}, {"grad", "the output's gradient"}};
constexpr ArgumentDoc kDenseWeightsOutputs[] = {
    {"grad_weight", "[units, features]"},
    {"grad_bias", "[units], with with_bias", Presence::optional}};
constexpr OpDocs kMatmulDocs{"The matrix product of the last two axes; axes before them broadcast.",
                             kProduct, kProductOutput};
constexpr OpDocs kDenseDocs{"x weight^T + bias: a fully connected layer.", kDense, kDenseOutput};
constexpr OpDocs kDenseBackwardDataDocs{"dense's gradient with respect to x: grad weight.",
                                        kDenseData, kDenseDataOutput};
constexpr OpDocs kDenseBackwardWeightsDocs{"dense's gradients with respect to weight and bias.",
                                           kDenseWeights, kDenseWeightsOutputs};

const OpDef& matmul_op() {
  static const OpDef op{.name = "matmul",
                        .docs = kMatmulDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<MatmulAttrs>(),
                        .promotion = Promotion::common,
                        .infer = infer_matmul,
                        .gradient = matmul_gradient,
                        .cpu = kernels::matmul_kernels()};
  return op;
}

void check_dense_input(const char* op, const Shape& x, bool flatten) {
  const int least = flatten ? 2 : 1;
  if (x.rank() < least)
    throw InvalidArgument("{}: input has shape {}, expected at least {} axes", op, x.str(), least);
}

std::int64_t features_of(const Shape& x, bool flatten) {
  if (!flatten) return x.back();
  std::int64_t features = 1;
  for (int i = 1; i < x.rank(); ++i) features *= x[i];
  return features;
}

// The shape of dense's output for an input of shape x.
Shape dense_shape(const Shape& x, std::int64_t units, bool flatten) {
  if (flatten) return {x[0], units};
  Shape y = x;
  y[y.rank() - 1] = units;
  return y;
}

void check_weight(const char* op, const TensorInfo& weight, std::int64_t features) {
  if (weight.shape.rank() != 2)
    throw InvalidArgument("{}: weight has shape {}, expected [units, features]", op,
                          weight.shape.str());
  if (weight.shape[1] != features)
    throw InvalidArgument("{}: weight has shape {}, input has {} features", op, weight.shape.str(),
                          features);
}

Infos infer_dense(const InferArgs& args) {
  const DenseAttrs& attrs = args.attrs.as<DenseAttrs>();
  const TensorInfo& x = args.inputs[0];
  const TensorInfo& weight = args.inputs[1];
  detail::check_floating(args.op, x);
  check_same_dtype(args.op, "input", x, "weight", weight);
  check_dense_input(args.op, x.shape, attrs.flatten);
  check_weight(args.op, weight, features_of(x.shape, attrs.flatten));
  if (args.inputs.size() == 3) {
    const TensorInfo& bias = args.inputs[2];
    check_same_dtype(args.op, "input", x, "bias", bias);
    if (!(bias.shape == Shape{weight.shape[0]}))
      throw InvalidArgument("{}: bias has shape {}, expected [{}]", args.op, bias.shape.str(),
                            weight.shape[0]);
  }
  if (!attrs.activation.empty() && attrs.activation != "relu")
    throw InvalidArgument("{}: activation is '{}', expected '' or 'relu'", args.op,
                          attrs.activation);
  return {{dense_shape(x.shape, weight.shape[0], attrs.flatten), x.dtype, x.device}};
}

// A shape from an attribute: sizes that a tensor can have, and that its parts can have next to a 0.
Shape checked_shape(const char* op, const Ints& sizes) {
  std::int64_t numel = 1;
  bool fits = sizes.size() <= static_cast<std::size_t>(kMaxRank);
  for (std::int64_t size : sizes)
    fits = fits && size >= 0 &&
           !__builtin_mul_overflow(numel, std::max<std::int64_t>(size, 1), &numel);
  if (!fits)
    throw InvalidArgument("{}: x_shape is {}, which no tensor has", op,
                          to_string(AttrValue(sizes)));
  return Shape(sizes);
}

Infos infer_dense_backward_data(const InferArgs& args) {
  const DenseBackwardDataAttrs& attrs = args.attrs.as<DenseBackwardDataAttrs>();
  const TensorInfo& dy = args.inputs[0];
  const TensorInfo& weight = args.inputs[1];
  detail::check_floating(args.op, dy);
  check_same_dtype(args.op, "gradient", dy, "weight", weight);
  const Shape x = checked_shape(args.op, attrs.x_shape);
  check_dense_input(args.op, x, attrs.flatten);
  check_weight(args.op, weight, features_of(x, attrs.flatten));
  const Shape expected = dense_shape(x, weight.shape[0], attrs.flatten);
  if (!(dy.shape == expected))
    throw InvalidArgument("{}: gradient has shape {}, expected {}", args.op, dy.shape.str(),
                          expected.str());
  return {{x, dy.dtype, dy.device}};
}

Infos infer_dense_backward_weights(const InferArgs& args) {
  const DenseBackwardWeightsAttrs& attrs = args.attrs.as<DenseBackwardWeightsAttrs>();
  const TensorInfo& x = args.inputs[0];
  const TensorInfo& dy = args.inputs[1];
  detail::check_floating(args.op, x);
  check_same_dtype(args.op, "input", x, "gradient", dy);
  check_dense_input(args.op, x.shape, attrs.flatten);
  const std::int64_t units = dy.shape.rank() > 0 ? dy.shape.back() : 0;
  const Shape expected = dense_shape(x.shape, units, attrs.flatten);
  if (!(dy.shape == expected))
    throw InvalidArgument("{}: gradient has shape {}, input has shape {}", args.op, dy.shape.str(),
                          x.shape.str());
  Infos out{{{units, features_of(x.shape, attrs.flatten)}, x.dtype, x.device}};
  if (attrs.with_bias) out.push_back({{units}, x.dtype, x.device});
  return out;
}

const OpDef& dense_backward_data_op();
const OpDef& dense_backward_weights_op();

Tensor dense_backward_data(const Tensor& dy, const Tensor& weight, const Shape& x, bool flatten) {
  return apply_one(dense_backward_data_op(), {dy, weight},
                   Attrs::of(DenseBackwardDataAttrs{ints_of(x), flatten}));
}

std::vector<Tensor> dense_backward_weights(const Tensor& x, const Tensor& dy, bool flatten,
                                           bool with_bias) {
  const Tensor inputs[] = {x, dy};
  return apply(dense_backward_weights_op(), inputs,
               Attrs::of(DenseBackwardWeightsAttrs{flatten, with_bias}));
}

std::vector<Tensor> dense_gradient(const GradientArgs& args) {
  const DenseAttrs& attrs = args.attrs.as<DenseAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor dy =
      attrs.activation == "relu" ? relu_backward(args.grad(), args.outputs[0]) : args.grad();
  std::vector<Tensor> grads(args.inputs.size());
  if (args.needs_grad(0))
    grads[0] = dense_backward_data(dy, args.inputs[1], x.shape(), attrs.flatten);
  const bool with_bias = args.inputs.size() == 3 && args.needs_grad(2);
  if (args.needs_grad(1) || with_bias) {
    const auto parts = dense_backward_weights(x, dy, attrs.flatten, with_bias);
    grads[1] = parts[0];
    if (with_bias) grads[2] = parts[1];
  }
  return grads;
}

std::vector<Tensor> dense_decompose(std::span<const Tensor> inputs, const Attrs& attrs) {
  const DenseAttrs& dense = attrs.as<DenseAttrs>();
  const Tensor& x = inputs[0];
  const Tensor rows = dense.flatten && x.rank() > 2 ? flatten(x) : x;
  Tensor y = matmul(rows, inputs[1], false, true);
  if (inputs.size() == 3) y = add(y, inputs[2]);
  return {dense.activation == "relu" ? relu(y) : y};
}

std::vector<Tensor> dense_backward_data_gradient(const GradientArgs& args) {
  const DenseBackwardDataAttrs& attrs = args.attrs.as<DenseBackwardDataAttrs>();
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0)) grads[0] = dense(args.grad(), args.inputs[1], {}, attrs.flatten);
  if (args.needs_grad(1))
    grads[1] = dense_backward_weights(args.grad(), args.inputs[0], attrs.flatten, false)[0];
  return grads;
}

std::vector<Tensor> dense_backward_weights_gradient(const GradientArgs& args) {
  const bool flatten = args.attrs.as<DenseBackwardWeightsAttrs>().flatten;
  const Tensor& x = args.inputs[0];
  const Tensor& dy = args.inputs[1];
  const Tensor& g_weight = args.output_grads[0];
  const Tensor g_bias = args.output_grads.size() == 2 ? args.output_grads[1] : Tensor();
  std::vector<Tensor> grads(2);
  if (args.needs_grad(0) && g_weight)
    grads[0] = dense_backward_data(dy, g_weight, x.shape(), flatten);
  if (args.needs_grad(1)) {
    if (g_weight)
      grads[1] = dense(x, g_weight, g_bias, flatten);
    else if (g_bias)
      grads[1] = expand(g_bias, dy.shape());
  }
  return grads;
}

const OpDef& dense_op() {
  static const OpDef op{.name = "dense",
                        .docs = kDenseDocs,
                        .min_inputs = 2,
                        .max_inputs = 3,
                        .schema = attr_schema<DenseAttrs>(),
                        .infer = infer_dense,
                        .gradient = dense_gradient,
                        .decompose = dense_decompose,
                        .cpu = kernels::dense_kernels()};
  return op;
}

const OpDef& dense_backward_data_op() {
  static const OpDef op{.name = "dense_backward_data",
                        .docs = kDenseBackwardDataDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<DenseBackwardDataAttrs>(),
                        .infer = infer_dense_backward_data,
                        .gradient = dense_backward_data_gradient,
                        .cpu = kernels::dense_backward_data_kernels()};
  return op;
}

const OpDef& dense_backward_weights_op() {
  static const OpDef op{.name = "dense_backward_weights",
                        .docs = kDenseBackwardWeightsDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<DenseBackwardWeightsAttrs>(),
                        .infer = infer_dense_backward_weights,
                        .gradient = dense_backward_weights_gradient,
                        .cpu = kernels::dense_backward_weights_kernels()};
  return op;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return apply_one_promoted(matmul_op(), {a, b}, Attrs::of(MatmulAttrs{transpose_a, transpose_b}));
}

Tensor dense(const Tensor& x, const Tensor& weight, const Tensor& bias, bool flatten) {
  const Attrs attrs = Attrs::of(DenseAttrs{flatten, ""});
  if (!bias) return apply_one(dense_op(), {x, weight}, attrs);
  return apply_one(dense_op(), {x, weight, bias}, attrs);
}

namespace families {

Family matmul() {
  return {&matmul_op(), &dense_op(), &dense_backward_data_op(), &dense_backward_weights_op()};
}

}  // namespace families
}  // namespace lockstep
