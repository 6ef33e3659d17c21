// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/softmax_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Row = std::vector<double>;
// What a row of the first input (and of the last) becomes.
using RowFn = std::function<Row(const Row&, const Row&)>;

std::function<std::vector<Tensor>(const std::vector<Tensor>&)> along(int axis, const RowFn& f) {
  return [axis, f](const std::vector<Tensor>& in) {
    const Shape& shape = in[0].shape();
    const auto at_axis = static_cast<std::size_t>(normalize_axis("", axis, shape.rank()));
    const std::int64_t size = shape[static_cast<int>(at_axis)];
    const Array a(in[0]), b(in.back());
    Array out(shape, DType::float64);
    for_each_coordinate(shape, [&](Ints at) {
      if (at[at_axis] != 0) return;
      Row row, other;
      for (std::int64_t i = 0; i < size; ++i) {
        at[at_axis] = i;
        row.push_back(a(at));
        other.push_back(b(at));
      }
      const Row result = f(row, other);
      for (std::int64_t i = 0; i < size; ++i) {
        at[at_axis] = i;
        out(at) = result[static_cast<std::size_t>(i)];
      }
    });
    return std::vector{out.tensor()};
  };
}

Row softmax_row(const Row& x, const Row&) {
  double most = x[0], sum = 0.0;
  for (double v : x) most = std::max(most, v);
  for (double v : x) sum += std::exp(v - most);
  Row y;
  for (double v : x) y.push_back(std::exp(v - most) / sum);
  return y;
}

Row log_softmax_row(const Row& x, const Row&) {
  double most = x[0], sum = 0.0;
  for (double v : x) most = std::max(most, v);
  for (double v : x) sum += std::exp(v - most);
  Row y;
  for (double v : x) y.push_back(v - most - std::log(sum));
  return y;
}

Row softmax_backward_row(const Row& g, const Row& y) {
  double dot = 0.0;
  for (std::size_t i = 0; i < g.size(); ++i) dot += g[i] * y[i];
  Row out;
  for (std::size_t i = 0; i < g.size(); ++i) out.push_back(y[i] * (g[i] - dot));
  return out;
}

Row log_softmax_backward_row(const Row& g, const Row& y) {
  double sum = 0.0;
  for (double v : g) sum += v;
  Row out;
  for (std::size_t i = 0; i < g.size(); ++i) out.push_back(g[i] - std::exp(y[i]) * sum);
  return out;
}

struct Setting {
  std::string label;
  Shape shape;
  int axis;
};

const std::vector<Setting> kSettings{{"one row", {5}, 0},
                                     {"rows", {3, 10}, -1},
                                     {"wide rows", {2, 37}, 1},
                                     {"long rows", {2, 1000}, -1},
                                     {"first axis", {6, 19}, 0},
                                     {"middle axis", {2, 3, 20}, 1},
                                     {"one element", {1, 1}, -1},
                                     {"no rows", {0, 4}, -1},
                                     {"rows of nothing", {3, 0}, -1},
                                     {"columns of nothing", {0, 3}, 0}};

}  // namespace

std::vector<OpCase> softmax_cases() {
  std::vector<OpCase> rows;
  for (const Setting& s : kSettings) {
    const Attrs attrs = Attrs::of(SoftmaxAttrs{s.axis});
    const Tensor x = random_tensor(s.shape, 1, -4.0, 4.0);
    const Tensor g = random_tensor(s.shape, 2);
    rows.push_back({"softmax", s.label, {x}, attrs, along(s.axis, softmax_row)});
    rows.push_back({"log_softmax", s.label, {x}, attrs, along(s.axis, log_softmax_row)});
    const Tensor y = random_tensor(s.shape, 3, -0.2, 0.2);
    OpCase back{"softmax_backward", s.label, {g, y}, attrs, along(s.axis, softmax_backward_row)};
    back.tolerance = 1e-4;
    rows.push_back(back);
    back.op = "log_softmax_backward";
    back.reference = along(s.axis, log_softmax_backward_row);
    rows.push_back(back);
  }
  for (int axis : {0, 1}) {
    const Tensor large = random_tensor({4, 18}, 5, -2000.0, 2000.0);
    const Attrs attrs = Attrs::of(SoftmaxAttrs{axis});
    rows.push_back({"softmax", "large values", {large}, attrs, along(axis, softmax_row)});
    rows.push_back({"log_softmax", "large values", {large}, attrs, along(axis, log_softmax_row)});
  }
  return rows;
}

}  // namespace lockstep::testing
