// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/ops/reduce_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;
using Reduction = std::function<double(const Values&)>;

Tensor converted(const Tensor& x, DType dtype) {
  const Tensor result = Tensor::empty(x.shape(), dtype);
  result.assign(x);
  return result;
}

// `f` of all values that share an output, in order.
Tensor naive(const Tensor& x, const Ints& axes, bool keepdims, DType dtype, const Reduction& f) {
  const std::vector<int> reduced = normalize_axes("naive", axes, x.rank());
  Shape kept = x.shape();
  for (int axis : reduced) kept[axis] = 1;
  std::vector<Values> groups(static_cast<std::size_t>(kept.numel()));
  const Array values(x);
  for_each_coordinate(x.shape(), [&](Ints at) {
    const double value = values(at);
    for (int axis : reduced) at[static_cast<std::size_t>(axis)] = 0;
    groups[static_cast<std::size_t>(flat(kept, at))].push_back(value);
  });
  Values results;
  for (const Values& group : groups) results.push_back(f(group));
  Shape shape = kept;
  if (!keepdims)
    for (auto axis = reduced.rbegin(); axis != reduced.rend(); ++axis) shape.erase(*axis);
  return converted(Tensor::from(results, shape), dtype);
}

double total(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0); }
double average(const Values& v) { return total(v) / static_cast<double>(v.size()); }
double product(const Values& v) {
  return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>());
}
double largest(const Values& v) { return *std::max_element(v.begin(), v.end()); }
double smallest(const Values& v) { return *std::min_element(v.begin(), v.end()); }
double first_largest(const Values& v) {
  return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
}
double first_smallest(const Values& v) {
  return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
}
double log_sum_exp(const Values& v) {
  if (v.empty()) return -std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (double x : v) sum += std::exp(x - largest(v));
  return largest(v) + std::log(sum);
}
Reduction variance(int ddof) {
  return [ddof](const Values& v) {
    double sum = 0.0;
    for (double x : v) sum += (x - average(v)) * (x - average(v));
    return sum / static_cast<double>(static_cast<int>(v.size()) - ddof);
  };
}
Reduction deviation(int ddof) {
  return [ddof](const Values& v) { return std::sqrt(variance(ddof)(v)); };
}
Reduction length(int ord) {
  return [ord](const Values& v) {
    double sum = 0.0;
    for (double x : v) sum += ord == 1 ? std::abs(x) : x * x;
    return ord == 1 ? sum : std::sqrt(sum);
  };
}

struct Setting {
  std::string label;
  Shape shape;
  Ints axes;
  bool keepdims = false;
};

// Wherever the loops differ: rows and columns, short and long, one axis or several groups of them.
const std::vector<Setting> kSettings{
    {"all of a vector", {37}, {}},
    {"scalar", {}, {}},
    {"one element", {1, 1}, {0}, true},
    {"rows", {5, 7}, {1}},
    {"rows longer than one run", {2, 5000}, {-1}},
    {"columns", {7, 40}, {0}},
    {"columns wider than one chunk", {3, 1100}, {0}},
    {"narrow columns", {700, 3}, {0}, true},
    {"the middle axis", {3, 70, 5}, {1}},
    {"all but the channels", {3, 4, 5, 6}, {0, 2, 3}},
    {"all but the last", {4, 5, 33}, {0, 1}},
    {"alternating axes", {3, 4, 5, 2}, {-4, -2}, true},
    {"no outputs", {0, 3}, {1}},
};
const std::vector<Setting> kEmptySettings{{"nothing to reduce", {0}, {}},
                                          {"rows of nothing", {3, 0}, {1}},
                                          {"no rows", {0, 3}, {0}, true}};

std::function<std::vector<Tensor>(const std::vector<Tensor>&)> reference(const Setting& s,
                                                                         const Reduction& f) {
  return [s, f](const std::vector<Tensor>& in) {
    return std::vector{naive(in[0], s.axes, s.keepdims, DType::float64, f)};
  };
}

class Rows {
 public:
  // With an attribute struct that starts from axes and keepdims.
  void add(const std::string& op, const Setting& s, const Attrs& attrs, const Reduction& f,
           double low = -1.0) {
    OpCase row{op, s.label, {random_tensor(s.shape, 7, low)}, attrs, reference(s, f)};
    row.tolerance = 1e-4;
    row.gradient_tolerance = 1e-4;
    // Differences between NaN or infinite results tell nothing.
    row.check_gradient = s.shape.numel() > 0;
    rows_.push_back(row);
  }

  void add_plain(const std::string& op, const std::vector<Setting>& settings, const Reduction& f,
                 double low = -1.0) {
    for (const Setting& s : settings)
      add(op, s, Attrs::of(ReduceAttrs{s.axes, s.keepdims}), f, low);
  }

  void add_integers(const std::string& op, const Reduction& f, std::optional<DType> result) {
    for (DType dtype :
         {DType::int8, DType::uint8, DType::int16, DType::int32, DType::int64, DType::boolean})
      for (const Setting& s : {kSettings[0], kSettings[3], kSettings[5], kSettings[7]}) {
        const bool bits = dtype == DType::boolean || op == "prod";
        const Tensor x = converted(random_indices(s.shape, 3, 0, bits ? 2 : 100), dtype);
        rows_.push_back({op,
                         s.label,
                         {x},
                         Attrs::of(ReduceAttrs{s.axes, s.keepdims}),
                         [s, f, type = result.value_or(dtype)](const std::vector<Tensor>& in) {
                           return std::vector{naive(in[0], s.axes, s.keepdims, type, f)};
                         }});
      }
  }

  std::vector<OpCase> take() { return std::move(rows_); }

 private:
  std::vector<OpCase> rows_;
};

void add_positions(std::vector<OpCase>& rows) {
  for (bool most : {true, false})
    for (const Setting& s : {kSettings[0], kSettings[2], kSettings[3], kSettings[5], kSettings[8],
                             Setting{"no outputs", {0, 3}, {1}}}) {
      const int axis = s.axes.empty() ? -1 : static_cast<int>(s.axes[0]);
      const auto find = [s, axis, most](const std::vector<Tensor>& in) {
        return std::vector{
            naive(in[0], {axis}, s.keepdims, DType::int64, most ? first_largest : first_smallest)};
      };
      const Attrs attrs = Attrs::of(ArgAttrs{axis, s.keepdims});
      rows.push_back(
          {most ? "argmax" : "argmin", s.label, {random_tensor(s.shape, 9)}, attrs, find});
      rows.push_back({most ? "argmax" : "argmin",
                      s.label + ", equals",
                      {random_indices(s.shape, 9, 0, 3)},
                      attrs,
                      find});
    }
}

void add_running_sums(std::vector<OpCase>& rows) {
  for (bool reverse : {false, true})
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{
             {{37}, 0}, {{5, 7}, -1}, {{5, 300}, 0}, {{2, 3, 4}, 1}, {{0, 3}, 0}, {{1}, 0}}) {
      const auto run = [axis = axis, reverse](const std::vector<Tensor>& in) {
        Array values(in[0]);
        const auto at_axis = static_cast<std::size_t>(normalize_axis("", axis, in[0].rank()));
        const std::int64_t step = reverse ? 1 : -1;
        const auto visit = [&](const Ints& at) {
          Ints before = at;
          before[at_axis] += step;
          const std::int64_t size = in[0].shape()[static_cast<int>(at_axis)];
          if (before[at_axis] >= 0 && before[at_axis] < size) values(at) += values(before);
        };
        std::vector<Ints> order;
        for_each_coordinate(in[0].shape(), [&](const Ints& at) { order.push_back(at); });
        if (reverse) std::reverse(order.begin(), order.end());
        std::for_each(order.begin(), order.end(), visit);
        return std::vector{values.tensor()};
      };
      const Attrs attrs = Attrs::of(CumsumAttrs{axis, reverse});
      rows.push_back({"cumsum", reverse ? "reverse" : "", {random_tensor(shape, 4)}, attrs, run});
      rows.push_back({"cumsum", "integers", {random_indices(shape, 4, -100, 100)}, attrs, run});
    }
}

// y[t] = a[t] y[t - 1] + b[t] along each line; a running product has b = 0 and begins with a[0].
Tensor naive_scan(const Tensor& a, const Tensor* b, const ScanAttrs& attrs) {
  const Array factors(a);
  Array result(b == nullptr ? a : *b);
  const auto axis = static_cast<std::size_t>(normalize_axis("", attrs.axis, a.rank()));
  const std::int64_t size = a.shape()[static_cast<int>(axis)];
  std::vector<Ints> order;
  for_each_coordinate(a.shape(), [&](const Ints& at) { order.push_back(at); });
  if (attrs.reverse) std::reverse(order.begin(), order.end());
  for (const Ints& at : order) {
    Ints before = at;
    before[axis] += attrs.reverse ? 1 : -1;
    if (before[axis] < 0 || before[axis] == size) continue;
    const double product = factors(at) * result(before);
    result(at) = b == nullptr ? product : product + result(at);
  }
  return result.tensor();
}

// x with every third element 0, each line's first too.
Tensor with_zeros(const Shape& shape) {
  std::vector<double> values = random_tensor(shape, 4).to_vector<double>();
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 0.0;
  return Tensor::from(values, shape);
}

void add_scans(std::vector<OpCase>& rows) {
  for (bool reverse : {false, true})
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, int>>{
             {{37}, 0}, {{5, 7}, -1}, {{5, 30}, 0}, {{2, 3, 4}, 1}, {{0, 3}, 0}, {{1}, 0}}) {
      const ScanAttrs attrs{axis, reverse};
      const auto product = [attrs](const std::vector<Tensor>& in) {
        return std::vector{naive_scan(in[0], nullptr, attrs)};
      };
      const std::string label = reverse ? "reverse" : "";
      for (const Tensor& x : {random_tensor(shape, 4, 0.5, 1.5), with_zeros(shape)})
        rows.push_back({"cumprod", label, {x}, Attrs::of(attrs), product});
      rows.push_back(
          {"cumprod", "integers", {random_indices(shape, 4, -2, 3)}, Attrs::of(attrs), product});
      rows.push_back({"linear_scan",
                      label,
                      {random_tensor(shape, 4), random_tensor(shape, 5)},
                      Attrs::of(attrs),
                      [attrs](const std::vector<Tensor>& in) {
                        return std::vector{naive_scan(in[0], &in[1], attrs)};
                      }});
    }
}

// One element in seven decides.
void add_truth(std::vector<OpCase>& rows, bool is_any, const Setting& s) {
  Values bits = random_indices(s.shape, 3, 0, 7).to_vector<double>();
  for (double& bit : bits) bit = (bit == 3.0) == is_any;
  rows.push_back({is_any ? "any" : "all",
                  s.label,
                  {converted(Tensor::from(bits, s.shape), DType::boolean)},
                  Attrs::of(ReduceAttrs{s.axes, s.keepdims}),
                  [=](const std::vector<Tensor>& in) {
                    const auto f = [=](const Values& v) {
                      if (v.empty()) return is_any ? 0.0 : 1.0;
                      return is_any ? largest(v) : smallest(v);
                    };
                    return std::vector{naive(in[0], s.axes, s.keepdims, DType::boolean, f)};
                  }});
}

void add_truths(std::vector<OpCase>& rows) {
  for (bool is_any : {true, false})
    for (const auto& settings : {kSettings, kEmptySettings})
      for (const Setting& s : settings) add_truth(rows, is_any, s);
}

}  // namespace

std::vector<OpCase> reduce_cases() {
  Rows rows;
  rows.add_plain("sum", kSettings, total);
  rows.add_plain("sum", kEmptySettings, total);
  rows.add_integers("sum", total, DType::int64);
  rows.add_plain("mean", kSettings, average);
  rows.add_plain("mean", kEmptySettings, average);
  rows.add_integers("mean", average, DType::float32);
  rows.add_plain("prod", {kSettings[1], kSettings[2], kSettings[3], kSettings[5], kSettings[9]},
                 product, 0.5);
  rows.add_plain("prod", kEmptySettings, product);
  rows.add_integers("prod", product, DType::int64);
  rows.add_plain("max", kSettings, largest);
  rows.add_integers("max", largest, std::nullopt);
  rows.add_plain("min", kSettings, smallest);
  rows.add_integers("min", smallest, std::nullopt);
  rows.add_plain("logsumexp", kSettings, log_sum_exp);
  rows.add_plain("logsumexp", kEmptySettings, log_sum_exp);
  rows.add_plain("logsumexp", {{"large values", {4, 20}, {1}}}, log_sum_exp, -2000.0);
  for (const Setting& s : kSettings) {
    rows.add("var", s, Attrs::of(VarAttrs{s.axes, s.keepdims}), variance(0));
    rows.add("stddev", s, Attrs::of(VarAttrs{s.axes, s.keepdims}), deviation(0));
    rows.add("norm", s, Attrs::of(NormAttrs{2, s.axes, s.keepdims}), length(2), 0.1);
    rows.add("norm", s, Attrs::of(NormAttrs{1, s.axes, s.keepdims}), length(1), 0.1);
  }
  for (const Setting& s : {kSettings[3], kSettings[5], kSettings[9]})
    for (const auto& [op, f] : {std::pair("var", variance(1)), std::pair("stddev", deviation(1))})
      rows.add(op, s, Attrs::of(VarAttrs{s.axes, s.keepdims, 1}), f);
  std::vector<OpCase> result = rows.take();
  add_positions(result);
  add_running_sums(result);
  add_scans(result);
  add_truths(result);
  return result;
}

}  // namespace lockstep::testing
