// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/ops/index_attrs.h"
#include "lockstep/ops/reduce_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

struct Line {
  int axis;
  bool descending;
  std::int64_t count;
};

// Insertion sort of every line: values, and where they were.
Tensors sorted(const Tensor& x, const Line& line) {
  Shape shape = x.shape();
  shape[line.axis] = line.count;
  Array values(x);
  Array result(shape, x.dtype());
  Array positions(shape, DType::int64);
  const auto axis = static_cast<std::size_t>(line.axis);
  const auto before = [&](double a, double b) {
    if (std::isnan(a) != std::isnan(b)) return std::isnan(line.descending ? a : b);
    return line.descending ? a > b : a < b;
  };
  Shape lines = x.shape();
  lines[line.axis] = 1;
  for_each_coordinate(lines, [&](Ints at) {
    std::vector<std::pair<double, double>> order;
    for (std::int64_t i = 0; i < x.shape()[line.axis]; ++i) {
      at[axis] = i;
      const double value = values(at);
      auto place = order.end();
      while (place != order.begin() && before(value, std::prev(place)->first)) --place;
      order.insert(place, {value, static_cast<double>(i)});
    }
    for (std::int64_t i = 0; i < line.count; ++i) {
      at[axis] = i;
      result(at) = order[static_cast<std::size_t>(i)].first;
      positions(at) = order[static_cast<std::size_t>(i)].second;
    }
  });
  return {result.tensor(), positions.tensor()};
}

// Rows for sort and argsort, both ways.
void add_sort(Cases& cases, const std::string& label, const Tensor& x, int axis, int place,
              bool smooth = true) {
  for (bool descending : {false, true}) {
    const Line line{place, descending, x.shape()[place]};
    const Attrs attrs = Attrs::of(SortAttrs{axis, descending});
    cases.push_back({.op = "sort",
                     .label = label,
                     .inputs = {x},
                     .attrs = attrs,
                     .reference = [=](const Tensors& in) { return sorted(in[0], line); },
                     .check_gradient = smooth});
    cases.push_back(
        {.op = "argsort",
         .label = label,
         .inputs = {x},
         .attrs = attrs,
         .reference = [=](const Tensors& in) -> Tensors { return {sorted(in[0], line)[1]}; }});
  }
}

void add_topk(Cases& cases, const std::string& label, const Tensor& x, std::int64_t k, int axis,
              int place, bool smooth = true) {
  for (bool largest : {false, true}) {
    const Line line{place, largest, k};
    cases.push_back({.op = "topk",
                     .label = label,
                     .inputs = {x},
                     .attrs = Attrs::of(TopkAttrs{k, axis, largest}),
                     .reference = [=](const Tensors& in) { return sorted(in[0], line); },
                     .check_gradient = smooth});
  }
}

// The middle one of each line in order, the lower of two, or the first NaN.
Tensors middles(const Tensor& x, int axis, bool keepdims) {
  const std::int64_t size = x.shape()[axis];
  const Tensors all = sorted(x, {axis, false, size});
  const Array values(all[0]), positions(all[1]);
  Shape shape = x.shape();
  shape[axis] = 1;
  Array value(shape, x.dtype()), position(shape, DType::int64);
  const auto along = static_cast<std::size_t>(axis);
  for_each_coordinate(shape, [&](const Ints& line) {
    Ints at = line;
    at[along] = (size - 1) / 2;
    for (Ints place = line; place[along] < size; ++place[along])
      if (std::isnan(values(place))) {
        at = place;
        break;
      }
    value(line) = values(at);
    position(line) = positions(at);
  });
  if (!keepdims) shape.erase(axis);
  const auto shaped = [&](const Tensor& y) {
    return y.window(shape, contiguous_strides(shape), y.offset());
  };
  return {shaped(value.tensor()), shaped(position.tensor())};
}

void add_median(Cases& cases, const std::string& label, const Tensor& x, int axis, int place,
                bool smooth = true) {
  for (bool keepdims : {false, true})
    cases.push_back(
        {.op = "median",
         .label = label,
         .inputs = {x},
         .attrs = Attrs::of(ArgAttrs{axis, keepdims}),
         .reference = [=](const Tensors& in) { return middles(in[0], place, keepdims); },
         .check_gradient = smooth});
}

Tensor with_dtype(const Tensor& x, DType dtype) {
  const Tensor result = Tensor::empty(x.shape(), dtype);
  result.assign(x);
  return result;
}

}  // namespace

std::vector<OpCase> sort_cases() {
  Cases cases;
  const double nan = std::nan("");
  const Tensor holes = Tensor::from(std::vector<double>{3, nan, 1, nan, INFINITY, -INFINITY}, {6});
  add_sort(cases, "vector", random_tensor({100}, 1), -1, 0);
  add_sort(cases, "rows", random_tensor({3, 7}, 2), -1, 1);
  add_sort(cases, "columns", random_tensor({5, 3}, 3), 0, 0);
  add_sort(cases, "middle axis", random_tensor({2, 4, 3}, 4), 1, 1);
  add_sort(cases, "one", random_tensor({1, 1}, 5), -1, 1);
  add_sort(cases, "none", random_tensor({2, 0}, 6), -1, 1);
  add_sort(cases, "no line", random_tensor({0, 2}, 6), -1, 1);
  add_sort(cases, "equal ones keep their order", Tensor::full({40}, 0.5, DType::float64), 0, 0,
           false);
  add_sort(cases, "NaN last", holes, 0, 0, false);
  const Tensor zeros = Tensor::from(std::vector<double>{0.0, -0.0, 0.0, -1.0, -0.0}, {5});
  add_sort(cases, "zeros of both signs are equal", zeros, 0, 0, false);
  add_topk(cases, "rows", random_tensor({3, 20}, 7), 4, -1, 1);
  add_topk(cases, "few of many", random_tensor({2, 100}, 7), 3, -1, 1);
  add_topk(cases, "columns", random_tensor({6, 2}, 8), 2, 0, 0);
  add_topk(cases, "all", random_tensor({5}, 9), 5, 0, 0);
  add_topk(cases, "none", random_tensor({3, 5}, 10), 0, 1, 1);
  add_topk(cases, "equal ones keep their order", Tensor::full({9}, 0.5, DType::float64), 3, 0, 0,
           false);
  add_topk(cases, "NaN last", holes, 5, 0, 0, false);
  add_median(cases, "vector", random_tensor({37}, 12), -1, 0);
  add_median(cases, "rows of an even size", random_tensor({3, 8}, 13), -1, 1);
  add_median(cases, "columns", random_tensor({5, 3}, 14), 0, 0);
  add_median(cases, "middle axis", random_tensor({2, 4, 3}, 15), -2, 1);
  add_median(cases, "one", random_tensor({1, 1}, 5), -1, 1);
  add_median(cases, "no line", random_tensor({0, 2}, 6), -1, 1);
  add_median(cases, "the first of equal ones", Tensor::full({9}, 0.5, DType::float64), 0, 0, false);
  add_median(cases, "NaN is found", holes, 0, 0, false);
  const Tensor some = Tensor::from(std::vector<double>{2, nan, 1, 3, 1, 2}, {2, 3});
  add_median(cases, "NaN in one line only", some, 1, 1, false);
  add_median(cases, "zeros of both signs are equal", zeros, 0, 0, false);
  for (DType dtype :
       {DType::int8, DType::uint8, DType::int16, DType::int32, DType::int64, DType::boolean}) {
    const Tensor x = with_dtype(random_indices({2, 30}, 11, 0, 9), dtype);
    add_sort(cases, "whole numbers", x, -1, 1);
    add_topk(cases, "whole numbers", x, 7, -1, 1);
    add_topk(cases, "few whole numbers", x, 3, -1, 1);
    add_median(cases, "whole numbers", x, -1, 1);
  }
  return cases;
}

}  // namespace lockstep::testing
