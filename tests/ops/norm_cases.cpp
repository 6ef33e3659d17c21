// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/ops/norm.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

// The channel of element i of x.
std::int64_t channel_of(const Shape& x, std::int64_t i) {
  std::int64_t inner = 1;
  for (int axis = 2; axis < x.rank(); ++axis) inner *= x[axis];
  return i / inner % x[1];
}

double count_of(const Shape& x) {
  return x.numel() == 0 ? 1.0 : static_cast<double>(x.numel() / x[1]);
}

// sum over each channel of f(i), divided by nothing.
template <class F>
Tensor channel_sums(const Shape& x, F&& f) {
  Tensor sums = Tensor::zeros({x[1]}, DType::float64);
  for (std::int64_t i = 0; i < x.numel(); ++i) sums.data<double>()[channel_of(x, i)] += f(i);
  return sums;
}

Tensor scaled(const Tensor& x, double scale) {
  Tensor y = x.copy();
  for (std::int64_t i = 0; i < y.numel(); ++i) y.data<double>()[i] *= scale;
  return y;
}

Tensor normalised(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                  const Tensor& var, double epsilon) {
  Tensor y = Tensor::empty(x.shape(), DType::float64);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t c = channel_of(x.shape(), i);
    const double rstd = 1.0 / std::sqrt(var.data<double>()[c] + epsilon);
    y.data<double>()[i] =
        (x.data<double>()[i] - mean.data<double>()[c]) * rstd * gamma.data<double>()[c] +
        beta.data<double>()[c];
  }
  return y;
}

Tensors batch_norm_reference(const Tensors& in, const BatchNormAttrs& attrs) {
  const Tensor& x = in[0];
  const double* data = x.data<double>();
  const double scale = 1.0 / count_of(x.shape());
  const Tensor mean =
      scaled(channel_sums(x.shape(), [&](std::int64_t i) { return data[i]; }), scale);
  const Tensor var = scaled(
      channel_sums(x.shape(),
                   [&](std::int64_t i) {
                     return std::pow(data[i] - mean.data<double>()[channel_of(x.shape(), i)], 2);
                   }),
      scale);
  const Tensor y = normalised(x, in[1], in[2], mean, var, attrs.epsilon);
  if (!attrs.relu) return {y, mean, var};
  Tensor passed = Tensor::empty(x.shape(), DType::uint8);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    passed.data<std::uint8_t>()[i] = y.data<double>()[i] > 0 ? 1 : 0;
    y.data<double>()[i] = std::max(y.data<double>()[i], 0.0);
  }
  return {y, mean, var, passed};
}

Tensors batch_norm_backward_reference(const Tensors& in, const BatchNormAttrs& attrs) {
  const Tensor &x = in[1], &gamma = in[2], &mean = in[3], &var = in[4];
  const Shape& shape = x.shape();
  const auto grad = [&](std::int64_t i) {
    return attrs.relu && in[5].data<std::uint8_t>()[i] == 0 ? 0.0 : in[0].data<double>()[i];
  };
  const auto rstd = [&](std::int64_t c) {
    return 1.0 / std::sqrt(var.data<double>()[c] + attrs.epsilon);
  };
  const auto normal = [&](std::int64_t i) {
    const std::int64_t c = channel_of(shape, i);
    return (x.data<double>()[i] - mean.data<double>()[c]) * rstd(c);
  };
  const Tensor dgamma = channel_sums(shape, [&](std::int64_t i) { return grad(i) * normal(i); });
  const Tensor dbeta = channel_sums(shape, grad);
  Tensor dx = Tensor::empty(shape, DType::float64);
  for (std::int64_t i = 0; i < dx.numel(); ++i) {
    const std::int64_t c = channel_of(shape, i);
    const double common = dbeta.data<double>()[c] + normal(i) * dgamma.data<double>()[c];
    dx.data<double>()[i] = gamma.data<double>()[c] * rstd(c) * (grad(i) - common / count_of(shape));
  }
  return {dx, dgamma, dbeta};
}

OpCase batch_norm_case(std::string label, const Shape& x, BatchNormAttrs attrs = {}) {
  OpCase c{"batch_norm",
           std::move(label),
           {random_tensor(x, 1, -2.0, 3.0), random_tensor({x[1]}, 2, 0.5, 1.5),
            random_tensor({x[1]}, 3)},
           Attrs::of(attrs)};
  c.reference = [attrs](const Tensors& in) { return batch_norm_reference(in, attrs); };
  c.tolerance = 2e-5;
  return c;
}

// 0 and 1, in some order.
Tensor mask(const Shape& shape) {
  Tensor bits = Tensor::empty(shape, DType::uint8);
  for (std::int64_t i = 0; i < bits.numel(); ++i)
    bits.data<std::uint8_t>()[i] = (i * 7 / 3) % 2 == 0 ? 1 : 0;
  return bits;
}

OpCase batch_norm_backward_case(std::string label, const Shape& x, BatchNormAttrs attrs = {}) {
  const Shape channels{x[1]};
  OpCase c{
      "batch_norm_backward",
      std::move(label),
      {random_tensor(x, 1), random_tensor(x, 2, -2.0, 3.0), random_tensor(channels, 3, 0.5, 1.5),
       random_tensor(channels, 4), random_tensor(channels, 5, 0.5, 2.0)},
      Attrs::of(attrs)};
  if (attrs.relu) c.inputs.push_back(mask(x));
  c.reference = [attrs](const Tensors& in) { return batch_norm_backward_reference(in, attrs); };
  c.tolerance = 2e-5;
  return c;
}

OpCase batch_norm_inference_case(std::string label, const Shape& x, double epsilon) {
  const Shape channels{x[1]};
  OpCase c{"batch_norm_inference",
           std::move(label),
           {random_tensor(x, 1), random_tensor(channels, 2), random_tensor(channels, 3),
            random_tensor(channels, 4), random_tensor(channels, 5, 0.5, 2.0)},
           Attrs::of(EpsilonAttrs{epsilon})};
  c.reference = [epsilon](const Tensors& in) -> Tensors {
    return {normalised(in[0], in[1], in[2], in[3], in[4], epsilon)};
  };
  return c;
}

Shape rows_shape(const Shape& x) {
  return Shape(x.span().first(static_cast<std::size_t>(x.rank() - 1)));
}

Tensors layer_norm_reference(const Tensors& in, double epsilon) {
  const Tensor& x = in[0];
  const std::int64_t n = x.shape().back();
  Tensor y = Tensor::empty(x.shape(), DType::float64);
  Tensor mean = Tensor::zeros(rows_shape(x.shape()), DType::float64);
  Tensor rstd = Tensor::full(rows_shape(x.shape()), 1.0 / std::sqrt(epsilon), DType::float64);
  for (std::int64_t i = 0; i < mean.numel(); ++i) {
    const double* row = x.data<double>() + i * n;
    double& m = mean.data<double>()[i];
    for (std::int64_t j = 0; j < n; ++j) m += row[j] / static_cast<double>(n);
    double var = 0;
    for (std::int64_t j = 0; j < n; ++j)
      var += (row[j] - m) * (row[j] - m) / static_cast<double>(n);
    const double r = rstd.data<double>()[i] = 1.0 / std::sqrt(var + epsilon);
    for (std::int64_t j = 0; j < n; ++j)
      y.data<double>()[i * n + j] =
          (row[j] - m) * r * in[1].data<double>()[j] + in[2].data<double>()[j];
  }
  return {y, mean, rstd};
}

Tensors layer_norm_backward_reference(const Tensors& in) {
  const Tensor& x = in[1];
  const std::int64_t n = x.shape().back();
  const double *dy = in[0].data<double>(), *gamma = in[2].data<double>();
  Tensor dx = Tensor::empty(x.shape(), DType::float64);
  Tensor dgamma = Tensor::zeros({n}, DType::float64), dbeta = Tensor::zeros({n}, DType::float64);
  const auto normal = [&](std::int64_t i, std::int64_t j) {
    return (x.data<double>()[i * n + j] - in[3].data<double>()[i]) * in[4].data<double>()[i];
  };
  for (std::int64_t i = 0; n > 0 && i < x.numel() / n; ++i) {
    double sum = 0, along = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      sum += dy[i * n + j] * gamma[j] / static_cast<double>(n);
      along += dy[i * n + j] * gamma[j] * normal(i, j) / static_cast<double>(n);
      dgamma.data<double>()[j] += dy[i * n + j] * normal(i, j);
      dbeta.data<double>()[j] += dy[i * n + j];
    }
    for (std::int64_t j = 0; j < n; ++j)
      dx.data<double>()[i * n + j] =
          in[4].data<double>()[i] * (dy[i * n + j] * gamma[j] - sum - normal(i, j) * along);
  }
  return {dx, dgamma, dbeta};
}

OpCase layer_norm_case(std::string label, const Shape& x, double epsilon = 1e-5) {
  const Shape columns{x.back()};
  OpCase c{"layer_norm",
           std::move(label),
           {random_tensor(x, 1, -2.0, 3.0), random_tensor(columns, 2, 0.5, 1.5),
            random_tensor(columns, 3)},
           Attrs::of(EpsilonAttrs{epsilon})};
  c.reference = [epsilon](const Tensors& in) { return layer_norm_reference(in, epsilon); };
  c.tolerance = 2e-5;
  return c;
}

OpCase layer_norm_backward_case(std::string label, const Shape& x) {
  const Shape columns{x.back()};
  OpCase c{
      "layer_norm_backward",
      std::move(label),
      {random_tensor(x, 1), random_tensor(x, 2, -2.0, 3.0), random_tensor(columns, 3, 0.5, 1.5),
       random_tensor(rows_shape(x), 4), random_tensor(rows_shape(x), 5, 0.5, 2.0)}};
  c.reference = layer_norm_backward_reference;
  c.tolerance = 2e-5;
  return c;
}

void add_batch_norm(std::vector<OpCase>& cases) {
  for (const bool relu : {false, true}) {
    const BatchNormAttrs attrs{1e-5, relu};
    const std::string suffix = relu ? ", relu" : "";
    cases.push_back(batch_norm_case("images" + suffix, {3, 4, 5, 2}, attrs));
    cases.push_back(batch_norm_case("whole blocks" + suffix, {2, 16, 3, 3}, attrs));
    cases.push_back(batch_norm_case("matrix" + suffix, {7, 19}, attrs));
    cases.push_back(batch_norm_case("signal" + suffix, {3, 4, 5}, attrs));
    cases.push_back(batch_norm_case("volume" + suffix, {2, 3, 2, 3, 2}, attrs));
    cases.push_back(batch_norm_case("no samples" + suffix, {0, 4, 2, 2}, attrs));
    cases.push_back(batch_norm_case("no channels" + suffix, {2, 0, 2, 2}, attrs));
    cases.push_back(batch_norm_backward_case("images" + suffix, {3, 4, 5, 2}, attrs));
    cases.push_back(batch_norm_backward_case("whole blocks" + suffix, {2, 16, 3, 3}, attrs));
    cases.push_back(batch_norm_backward_case("matrix" + suffix, {7, 19}, attrs));
    cases.push_back(batch_norm_backward_case("signal" + suffix, {3, 4, 5}, attrs));
    cases.push_back(batch_norm_backward_case("no samples" + suffix, {0, 4, 2, 2}, attrs));
  }
  cases.push_back(batch_norm_case("large epsilon", {3, 4, 5, 2}, {0.5, false}));
  cases.push_back(batch_norm_inference_case("images", {3, 4, 5, 2}, 1e-5));
  cases.push_back(batch_norm_inference_case("matrix", {7, 19}, 0.1));
  cases.push_back(batch_norm_inference_case("size 1", {1, 1}, 1e-5));
  cases.push_back(batch_norm_inference_case("no samples", {0, 4, 2, 2}, 1e-5));
}

void add_layer_norm(std::vector<OpCase>& cases) {
  cases.push_back(layer_norm_case("matrix", {5, 8}));
  cases.push_back(layer_norm_case("sequences", {2, 3, 37}));
  cases.push_back(layer_norm_case("vector", {11}));
  cases.push_back(layer_norm_case("wide", {2, 150}));
  cases.push_back(layer_norm_case("large epsilon", {3, 5}, 0.5));
  cases.push_back(layer_norm_case("no rows", {0, 5}));
  cases.push_back(layer_norm_case("no columns", {3, 0}));
  cases.push_back(layer_norm_backward_case("matrix", {5, 8}));
  cases.push_back(layer_norm_backward_case("sequences", {2, 3, 37}));
  cases.push_back(layer_norm_backward_case("vector", {11}));
  cases.push_back(layer_norm_backward_case("wide", {2, 150}));
  cases.push_back(layer_norm_backward_case("no rows", {0, 5}));
}

// By itself, as it is outside of a training step; tests/train has what shards do.
void add_shard_mean(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{37}, Shape{3, 5}})
    cases.push_back({.op = "shard_mean",
                     .label = shape.str(),
                     .inputs = {random_tensor(shape, 1)},
                     .reference = [](const Tensors& in) {
                       return Tensors{in[0], Tensor::from(std::vector<double>{1.0}, {})};
                     }});
}

}  // namespace

std::vector<OpCase> norm_cases() {
  std::vector<OpCase> cases;
  add_shard_mean(cases);
  add_batch_norm(cases);
  add_layer_norm(cases);
  return cases;
}

}  // namespace lockstep::testing
