// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/catalogue.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<double(const std::vector<double>&)>;

// Applies `f` to each place of the broadcast inputs. The result has `dtype`.
Tensors mapped(const Tensors& inputs, DType dtype, const Function& f) {
  Shape shape = inputs[0].shape();
  for (const Tensor& x : inputs) shape = broadcast_shapes("reference", shape, x.shape());
  std::vector<Array> arrays;
  for (const Tensor& x : inputs) arrays.emplace_back(x);
  Array result(shape, dtype);
  for_each_coordinate(shape, [&](const Ints& at) {
    std::vector<double> values;
    for (const Array& array : arrays) {
      Ints place(at.end() - array.shape().rank(), at.end());
      for (int i = 0; i < array.shape().rank(); ++i)
        if (array.shape()[i] == 1) place[static_cast<std::size_t>(i)] = 0;
      values.push_back(array(place));
    }
    result(at) = f(values);
  });
  return {result.tensor()};
}

struct Pair {
  const char* label;
  Shape a;
  Shape b;
};

const Pair kPairs[] = {
    {"same shape", {3, 4}, {3, 4}},
    {"scalars", {}, {}},
    {"one element", {1}, {1}},
    {"size 0", {0, 3}, {3}},
    {"a row for all", {5, 3}, {3}},
    {"a column for all", {3, 1}, {3, 70}},
    {"both broadcast", {4, 1, 3}, {2, 1}},
    {"a scalar on the right", {37}, {}},
    {"a scalar on the left", {}, {37}},
    {"past vector widths", {1003}, {1003}},
    {"many short rows", {300, 7}, {7}},
};

struct Range {
  double low = -2.0;
  double high = 2.0;
};

// A float case for each pair of shapes, then whole numbers.
void add_binary(std::vector<OpCase>& cases, const std::string& op, Range a, Range b,
                const std::function<double(double, double)>& f, bool differentiable = true) {
  for (const Pair& pair : kPairs)
    cases.push_back({.op = op,
                     .label = pair.label,
                     .inputs = {random_tensor(pair.a, 1, a.low, a.high),
                                random_tensor(pair.b, 2, b.low, b.high)},
                     .reference =
                         [f](const Tensors& in) {
                           return mapped(in, DType::float64, [&](const std::vector<double>& v) {
                             return f(v[0], v[1]);
                           });
                         },
                     .check_gradient = differentiable && pair.a.numel() < 100});
}

Tensor in_dtype(const Tensor& x, DType dtype) {
  const Tensor result = Tensor::empty(x.shape(), dtype);
  result.assign(x);
  return result;
}

void add_integers(std::vector<OpCase>& cases, const std::string& op, std::int64_t low,
                  const std::function<double(double, double)>& f) {
  for (DType dtype : {DType::int64, DType::int32, DType::int16, DType::int8, DType::uint8}) {
    const std::int64_t least = dtype == DType::uint8 ? std::max<std::int64_t>(low, 0) : low;
    const Tensor a = in_dtype(random_indices({7, 9}, 3, least, 5), dtype);
    const Tensor b = in_dtype(random_indices({9}, 4, 1, 4), dtype);
    cases.push_back({.op = op,
                     .label = std::string(name_of(dtype)),
                     .inputs = {a, b},
                     .reference = [f, dtype](const Tensors& in) {
                       return mapped(in, dtype,
                                     [&](const std::vector<double>& v) { return f(v[0], v[1]); });
                     }});
  }
}

void add_bool_result(std::vector<OpCase>& cases, const std::string& op, const Tensor& a,
                     const Tensor& b, const std::function<bool(double, double)>& f) {
  cases.push_back({.op = op,
                   .label = std::string(name_of(a.dtype())),
                   .inputs = {a, b},
                   .reference = [f](const Tensors& in) {
                     return mapped(in, DType::boolean, [&](const std::vector<double>& v) {
                       return f(v[0], v[1]) ? 1.0 : 0.0;
                     });
                   }});
}

Tensor random_bools(const Shape& shape, std::uint64_t seed) {
  return in_dtype(random_indices(shape, seed, 0, 2), DType::boolean);
}

void add_comparison(std::vector<OpCase>& cases, const std::string& op,
                    const std::function<bool(double, double)>& f) {
  const Tensor whole = random_indices({40, 5}, 5, -2, 3);
  const Tensor row = random_indices({5}, 6, -2, 3);
  for (DType dtype : {DType::float64, DType::int64, DType::int16, DType::int8, DType::boolean})
    add_bool_result(cases, op, in_dtype(whole, dtype), in_dtype(row, dtype), f);
  add_bool_result(cases, op, Tensor::zeros({0, 2}, DType::float64),
                  Tensor::zeros({2}, DType::float64), f);
}

double python_remainder(double a, double b) { return a - std::floor(a / b) * b; }

void add_arithmetic(std::vector<OpCase>& cases) {
  const Range any;
  const Range away{0.5, 2.0};
  const auto plus = [](double a, double b) { return a + b; };
  const auto minus = [](double a, double b) { return a - b; };
  const auto times = [](double a, double b) { return a * b; };
  const auto over = [](double a, double b) { return a / b; };
  const auto floor_over = [](double a, double b) { return std::floor(a / b); };
  const auto raised = [](double a, double b) { return std::pow(a, b); };
  const auto larger = [](double a, double b) { return std::max(a, b); };
  const auto smaller = [](double a, double b) { return std::min(a, b); };
  add_binary(cases, "add", any, any, plus);
  add_binary(cases, "subtract", any, any, minus);
  add_binary(cases, "multiply", any, any, times);
  add_binary(cases, "divide", any, away, over);
  add_binary(cases, "floor_divide", {-9.0, 9.0}, away, floor_over);
  add_binary(cases, "remainder", any, {-2.0, -0.5}, python_remainder);
  add_binary(cases, "power", away, any, raised);
  add_binary(cases, "maximum", any, any, larger);
  add_binary(cases, "minimum", any, any, smaller);
  add_integers(cases, "add", -5, plus);
  add_integers(cases, "subtract", 4, minus);
  add_integers(cases, "multiply", -5, times);
  add_integers(cases, "floor_divide", -5, floor_over);
  add_integers(cases, "remainder", -5, python_remainder);
  add_integers(cases, "power", -3, raised);
  add_integers(cases, "maximum", -5, larger);
  add_integers(cases, "minimum", -5, smaller);
}

void add_logic(std::vector<OpCase>& cases) {
  add_comparison(cases, "equal", [](double a, double b) { return a == b; });
  add_comparison(cases, "not_equal", [](double a, double b) { return a != b; });
  add_comparison(cases, "less", [](double a, double b) { return a < b; });
  add_comparison(cases, "less_equal", [](double a, double b) { return a <= b; });
  add_comparison(cases, "greater", [](double a, double b) { return a > b; });
  add_comparison(cases, "greater_equal", [](double a, double b) { return a >= b; });
  const Tensor a = random_bools({6, 5}, 7);
  const Tensor b = random_bools({5}, 8);
  add_bool_result(cases, "logical_and", a, b, [](double x, double y) { return x && y; });
  add_bool_result(cases, "logical_or", a, b, [](double x, double y) { return x || y; });
  add_bool_result(cases, "logical_xor", a, b, [](double x, double y) { return x != y; });
  add_bool_result(cases, "add", a, b, [](double x, double y) { return x || y; });
  add_bool_result(cases, "multiply", a, b, [](double x, double y) { return x && y; });
  add_bool_result(cases, "maximum", a, b, [](double x, double y) { return x || y; });
  add_bool_result(cases, "minimum", a, b, [](double x, double y) { return x && y; });
  cases.push_back({.op = "logical_not", .label = "bool", .inputs = {a}, .reference = [](auto& in) {
                     return mapped(in, DType::boolean,
                                   [](const auto& v) { return v[0] == 0.0 ? 1.0 : 0.0; });
                   }});
}

void add_where(std::vector<OpCase>& cases, const std::string& label, const Shape& condition,
               const Shape& a, const Shape& b) {
  cases.push_back(
      {.op = "where",
       .label = label,
       .inputs = {random_bools(condition, 9), random_tensor(a, 10), random_tensor(b, 11)},
       .reference = [](const Tensors& in) {
         return mapped(in, DType::float64, [](const auto& v) { return v[0] != 0.0 ? v[1] : v[2]; });
       }});
}

Attrs attrs_of(const std::string& op, std::vector<AttrField> fields) {
  return get_op(op).schema.make(op, fields);
}

void add_clip(std::vector<OpCase>& cases, const std::string& label, const Tensor& x, double low,
              double high) {
  const DType dtype = x.dtype();
  cases.push_back({.op = "clip",
                   .label = label,
                   .inputs = {x},
                   .attrs = attrs_of("clip", {{"low", low}, {"high", high}}),
                   .reference = [=](const Tensors& in) {
                     return mapped(in, dtype, [&](const auto& v) {
                       return std::min(std::max(v[0], low), high);
                     });
                   }});
}

// Multiples of 1/4 in -8..8: every floating dtype holds them.
Tensor quarters(const Shape& shape) {
  const Tensor whole = random_indices(shape, 12, -32, 33);
  std::vector<double> values = whole.to_vector<double>();
  for (double& v : values) v *= 0.25;
  return Tensor::from(values, shape);
}

void add_cast(std::vector<OpCase>& cases, DType dtype, const Tensor& x,
              const std::function<double(double)>& f) {
  cases.push_back({.op = "cast",
                   .label = std::string(name_of(dtype)),
                   .inputs = {x},
                   .attrs = attrs_of("cast", {{"dtype", dtype}}),
                   .reference =
                       [=](const Tensors& in) {
                         return mapped(in, dtype, [&](const auto& v) { return f(v[0]); });
                       },
                   .check_gradient = dtype == DType::float64});
}

void add_casts(std::vector<OpCase>& cases) {
  const auto same = [](double x) { return x; };
  const Tensor x = quarters({7, 11});
  for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    add_cast(cases, dtype, x, same);
  for (DType dtype : {DType::int8, DType::int16, DType::int32, DType::int64})
    add_cast(cases, dtype, x, [](double v) { return std::trunc(v); });
  add_cast(cases, DType::boolean, x, [](double v) { return v != 0.0 ? 1.0 : 0.0; });
  add_cast(cases, DType::float32, random_indices({5}, 13, -100, 100), same);
  add_cast(cases, DType::uint8, random_bools({0, 4}, 14), same);
  add_cast(cases, DType::float64, random_bools({9}, 14), same);
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  add_arithmetic(cases);
  add_logic(cases);
  add_where(cases, "same shape", {6, 7}, {6, 7}, {6, 7});
  add_where(cases, "all broadcast", {4, 1, 1}, {3, 1}, {5});
  add_where(cases, "scalars to choose from", {130}, {}, {});
  add_where(cases, "size 0", {0}, {1}, {});
  add_clip(cases, "both bounds", random_tensor({9, 5}, 15, -2.0, 2.0), -0.7, 1.1);
  add_clip(cases, "no upper bound", random_tensor({70}, 16), 0.0,
           std::numeric_limits<double>::infinity());
  add_clip(cases, "a scalar", random_tensor({}, 17), -0.1, 0.1);
  add_clip(cases, "int64", random_indices({20}, 18, -9, 9), -4.0, 3.0);
  add_casts(cases);
  return cases;
}

}  // namespace lockstep::testing
