// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/catalogue.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Fields = std::vector<AttrField>;

struct Range {
  double low = -3.0;
  double high = 3.0;
};

Tensors mapped(const Tensor& x, const std::function<double(double)>& f) {
  std::vector<double> values = x.to_vector<double>();
  for (double& v : values) v = f(v);
  const Tensor result = Tensor::empty(x.shape(), x.dtype());
  result.assign(Tensor::from(values, x.shape()));
  return {result};
}

Attrs attrs_of(const std::string& op, const Fields& fields) {
  return fields.empty() ? Attrs{} : get_op(op).schema.make(op, fields);
}

void add_unary(std::vector<OpCase>& cases, const std::string& op, Range range,
               const std::function<double(double)>& f, const Fields& fields = {}) {
  for (const Shape& shape : {Shape{4, 3}, Shape{}, Shape{1}, Shape{0, 2}, Shape{1037}})
    cases.push_back({.op = op,
                     .label = shape.str(),
                     .inputs = {random_tensor(shape, 21, range.low, range.high)},
                     .attrs = attrs_of(op, fields),
                     .reference = [f](const Tensors& in) { return mapped(in[0], f); },
                     .check_gradient = shape.numel() < 100});
}

void add_integers(std::vector<OpCase>& cases, const std::string& op,
                  const std::function<double(double)>& f) {
  for (DType dtype : {DType::int8, DType::uint8, DType::int16, DType::int32, DType::int64}) {
    const Tensor x = Tensor::empty({3, 13}, dtype);
    x.assign(random_indices({3, 13}, 22, dtype == DType::uint8 ? 0 : -9, 10));
    cases.push_back({.op = op,
                     .label = std::string(name_of(dtype)),
                     .inputs = {x},
                     .reference = [f](const Tensors& in) { return mapped(in[0], f); }});
  }
}

// Ops that integers have too.
void add_numbers(std::vector<OpCase>& cases, const std::string& op,
                 const std::function<double(double)>& f) {
  add_unary(cases, op, {}, f);
  add_integers(cases, op, f);
}

// `slope` is the derivative, of y for ops that keep their output, else of x.
void add_backward(std::vector<OpCase>& cases, const std::string& op, Range range,
                  const std::function<double(double)>& slope, const Fields& fields = {}) {
  for (const Shape& shape : {Shape{4, 3}, Shape{}, Shape{0}, Shape{1037}})
    cases.push_back(
        {.op = op,
         .label = shape.str(),
         .inputs = {random_tensor(shape, 23), random_tensor(shape, 24, range.low, range.high)},
         .attrs = attrs_of(op, fields),
         .reference =
             [slope](const Tensors& in) {
               std::vector<double> g = in[0].to_vector<double>();
               const std::vector<double> v = in[1].to_vector<double>();
               for (std::size_t i = 0; i < g.size(); ++i) g[i] *= slope(v[i]);
               return Tensors{Tensor::from(g, in[0].shape())};
             },
         .check_gradient = shape.numel() < 100});
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double tanh_inside(double x) { return std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x); }
double gelu_tanh(double x) { return 0.5 * x * (1.0 + std::tanh(tanh_inside(x))); }
double gelu_slope(double x) {
  return normal_cdf(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
}
double gelu_tanh_slope(double x) {
  const double t = std::tanh(tanh_inside(x));
  const double inner = std::sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

void add_functions(std::vector<OpCase>& cases) {
  const Range positive{0.2, 4.0};
  add_unary(cases, "exp", {}, [](double x) { return std::exp(x); });
  add_unary(cases, "expm1", {}, [](double x) { return std::expm1(x); });
  add_unary(cases, "log", positive, [](double x) { return std::log(x); });
  add_unary(cases, "log1p", {-0.8, 4.0}, [](double x) { return std::log1p(x); });
  add_unary(cases, "sqrt", positive, [](double x) { return std::sqrt(x); });
  add_unary(cases, "rsqrt", positive, [](double x) { return 1.0 / std::sqrt(x); });
  add_unary(cases, "reciprocal", {-4.0, -0.3}, [](double x) { return 1.0 / x; });
  add_unary(cases, "erf", {}, [](double x) { return std::erf(x); });
  add_unary(cases, "sin", {-9.0, 9.0}, [](double x) { return std::sin(x); });
  add_unary(cases, "cos", {-9.0, 9.0}, [](double x) { return std::cos(x); });
  add_unary(cases, "tanh", {}, [](double x) { return std::tanh(x); });
  add_unary(cases, "sigmoid", {}, sigmoid);
  add_unary(cases, "softplus", {}, [](double x) { return std::log1p(std::exp(x)); });
  add_unary(cases, "silu", {}, [](double x) { return x * sigmoid(x); });
}

void add_activations(std::vector<OpCase>& cases) {
  add_unary(cases, "leaky_relu", {}, [](double x) { return x > 0 ? x : 0.3 * x; },
            {{"slope", 0.3}});
  add_unary(cases, "elu", {}, [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); },
            {{"alpha", 0.7}});
  add_unary(cases, "selu", {}, [](double x) {
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  });
  add_unary(cases, "gelu", {}, [](double x) { return x * normal_cdf(x); },
            {{"approximate", false}});
  add_unary(cases, "gelu", {}, gelu_tanh, {{"approximate", true}});
  add_unary(cases, "hard_sigmoid", {-4.0, 4.0},
            [](double x) { return std::min(std::max(0.3 * x + 0.4, 0.0), 1.0); },
            {{"alpha", 0.3}, {"beta", 0.4}});
}

}  // namespace

std::vector<OpCase> unary_cases() {
  std::vector<OpCase> cases;
  add_unary(cases, "negative", {}, [](double x) { return -x; });
  add_numbers(cases, "square", [](double x) { return x * x; });
  add_numbers(cases, "abs", [](double x) { return std::fabs(x); });
  add_numbers(cases, "sign", [](double x) { return (x > 0) - (x < 0); });
  add_numbers(cases, "floor", [](double x) { return std::floor(x); });
  add_numbers(cases, "ceil", [](double x) { return std::ceil(x); });
  add_numbers(cases, "round", [](double x) { return std::nearbyint(x); });
  add_numbers(cases, "relu", [](double x) { return std::max(x, 0.0); });
  add_functions(cases);
  add_activations(cases);
  add_backward(cases, "relu_backward", {}, [](double y) { return y > 0 ? 1.0 : 0.0; });
  add_backward(cases, "sigmoid_backward", {0.0, 1.0}, [](double y) { return y * (1.0 - y); });
  add_backward(cases, "tanh_backward", {-1.0, 1.0}, [](double y) { return 1.0 - y * y; });
  add_backward(cases, "gelu_backward", {}, gelu_slope, {{"approximate", false}});
  add_backward(cases, "gelu_backward", {}, gelu_tanh_slope, {{"approximate", true}});
  return cases;
}

}  // namespace lockstep::testing
