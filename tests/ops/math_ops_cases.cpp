// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Function = double (*)(double);
using PairFunction = double (*)(double, double);

struct Range {
  double low;
  double high;
};

Tensor mapped(const Tensor& x, DType dtype, const std::function<double(double)>& f) {
  Array result(x.shape(), dtype);
  const Array values(x);
  for_each_coordinate(x.shape(), [&](const Ints& at) { result(at) = f(values(at)); });
  return result.tensor();
}

void add_function(std::vector<OpCase>& cases, const std::string& op, Range range, Function f) {
  for (const Shape& shape : {Shape{4, 3}, Shape{}, Shape{1}, Shape{0, 2}, Shape{1037}})
    cases.push_back({.op = op,
                     .label = shape.str(),
                     .inputs = {random_tensor(shape, 21, range.low, range.high)},
                     .reference = [f](const Tensors& in) -> Tensors {
                       return {mapped(in[0], DType::float64, f)};
                     },
                     .check_gradient = shape.numel() < 100});
}

Tensor numbers(const Shape& shape, std::uint64_t seed, std::int64_t low, DType dtype) {
  const Tensor x = Tensor::empty(shape, dtype);
  x.assign(random_indices(shape, seed, dtype == DType::uint8 ? 0 : low, 10));
  return x;
}

void add_integers(std::vector<OpCase>& cases) {
  for (DType dtype : {DType::int8, DType::uint8, DType::int16, DType::int32, DType::int64}) {
    const std::string label(name_of(dtype));
    cases.push_back({.op = "trunc",
                     .label = label,
                     .inputs = {numbers({3, 13}, 22, -9, dtype)},
                     .reference = [](const Tensors& in) { return Tensors{in[0]}; }});
    cases.push_back({.op = "fmod",
                     .label = label,
                     .inputs = {numbers({3, 13}, 22, -9, dtype), numbers({13}, 23, -3, dtype)},
                     .reference = [](const Tensors& in) -> Tensors {
                       Array result(in[0]);
                       const Array b(in[1]);
                       for_each_coordinate(in[0].shape(), [&](const Ints& at) {
                         const double by = b({at[1]});
                         result(at) = by == 0 ? 0 : std::fmod(result(at), by);
                       });
                       return {result.tensor()};
                     }});
  }
}

// Among numbers, those that a test is about.
Tensor with_specials(const Shape& shape) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = random_tensor(shape, 24).to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 5 == 1) values[i] = std::numeric_limits<double>::quiet_NaN();
    if (i % 5 == 2) values[i] = i % 2 ? kInfinity : -kInfinity;
  }
  return Tensor::from(values, shape);
}

void add_test(std::vector<OpCase>& cases, const std::string& op, bool (*f)(double)) {
  const auto reference = [f](const Tensors& in) -> Tensors {
    return {mapped(in[0], DType::boolean, f)};
  };
  for (const Shape& shape : {Shape{4, 3}, Shape{}, Shape{0, 2}, Shape{37}})
    cases.push_back(
        {.op = op, .label = shape.str(), .inputs = {with_specials(shape)}, .reference = reference});
  for (DType dtype : {DType::int8, DType::int16, DType::int64, DType::boolean})
    cases.push_back({.op = op,
                     .label = std::string(name_of(dtype)),
                     .inputs = {numbers({3, 13}, 22, 0, dtype)},
                     .reference = reference});
}

void add_pair(std::vector<OpCase>& cases, const std::string& op, Range a, Range b, PairFunction f) {
  const std::pair<Shape, Shape> shapes[] = {{{4, 3}, {4, 3}}, {{}, {}},   {{0, 2}, {2}},
                                            {{4, 1}, {1, 3}}, {{37}, {}}, {{2, 37}, {37}}};
  for (const auto& [left, right] : shapes)
    cases.push_back({.op = op,
                     .label = left.str() + " and " + right.str(),
                     .inputs = {random_tensor(left, 25, a.low, a.high),
                                random_tensor(right, 26, b.low, b.high)},
                     .reference = [f](const Tensors& in) -> Tensors {
                       const Shape shape = broadcast_shapes("test", in[0].shape(), in[1].shape());
                       Array result(shape, DType::float64);
                       const auto place = [](const Shape& own, Ints at) {
                         at.erase(at.begin(), at.end() - own.rank());
                         for (int i = 0; i < own.rank(); ++i)
                           if (own[i] == 1) at[static_cast<std::size_t>(i)] = 0;
                         return at;
                       };
                       for_each_coordinate(shape, [&](const Ints& at) {
                         result(at) = f(Array(in[0])(place(in[0].shape(), at)),
                                        Array(in[1])(place(in[1].shape(), at)));
                       });
                       return {result.tensor()};
                     }});
}

// By bisection, to the last digit but one.
double inverse_erf(double x) {
  double low = -6.0, high = 6.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (std::erf(middle) < x ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::vector<OpCase> math_cases() {
  std::vector<OpCase> cases;
  add_function(cases, "exp2", {-3, 3}, [](double x) { return std::exp2(x); });
  add_function(cases, "log2", {0.2, 4}, [](double x) { return std::log2(x); });
  add_function(cases, "log10", {0.2, 4}, [](double x) { return std::log10(x); });
  add_function(cases, "tan", {-1.2, 1.2}, [](double x) { return std::tan(x); });
  add_function(cases, "asin", {-0.9, 0.9}, [](double x) { return std::asin(x); });
  add_function(cases, "acos", {-0.9, 0.9}, [](double x) { return std::acos(x); });
  add_function(cases, "atan", {-3, 3}, [](double x) { return std::atan(x); });
  add_function(cases, "sinh", {-3, 3}, [](double x) { return std::sinh(x); });
  add_function(cases, "cosh", {-3, 3}, [](double x) { return std::cosh(x); });
  add_function(cases, "asinh", {-3, 3}, [](double x) { return std::asinh(x); });
  add_function(cases, "acosh", {1.2, 4}, [](double x) { return std::acosh(x); });
  add_function(cases, "atanh", {-0.9, 0.9}, [](double x) { return std::atanh(x); });
  add_function(cases, "erfinv", {-0.9, 0.9}, inverse_erf);
  add_function(cases, "trunc", {-3, 3}, [](double x) { return std::trunc(x); });
  add_pair(cases, "atan2", {-2, 2}, {0.5, 2}, [](double a, double b) { return std::atan2(a, b); });
  // The quotient stays between two integers.
  add_pair(cases, "fmod", {7.2, 7.9}, {3, 3.5}, [](double a, double b) { return std::fmod(a, b); });
  add_pair(cases, "hypot", {0.5, 2}, {-2, 2}, [](double a, double b) { return std::hypot(a, b); });
  add_pair(cases, "logaddexp", {-3, 3}, {-3, 3},
           [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); });
  add_test(cases, "isnan", [](double x) { return std::isnan(x); });
  add_test(cases, "isinf", [](double x) { return std::isinf(x); });
  add_test(cases, "isfinite", [](double x) { return std::isfinite(x); });
  add_integers(cases);
  return cases;
}

}  // namespace lockstep::testing
