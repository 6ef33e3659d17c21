// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/ops/loss_attrs.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

Shape rows_of(const Shape& logits) {
  Shape rows = logits;
  rows.erase(rows.rank() - 1);
  return rows;
}

// The probabilities that a row of labels stands for.
Values target_of(const Tensor& labels, std::int64_t row, std::int64_t classes, double smoothing) {
  const Values given = labels.to_vector<double>();
  Values target(static_cast<std::size_t>(classes), smoothing / static_cast<double>(classes));
  for (std::size_t c = 0; c < target.size(); ++c) {
    const auto at = static_cast<std::size_t>(row * classes) + c;
    const double label = is_floating(labels.dtype())
                             ? given[at]
                             : given[static_cast<std::size_t>(row)] == static_cast<double>(c);
    target[c] += (1.0 - smoothing) * label;
  }
  return target;
}

std::vector<Tensor> naive_loss(const std::vector<Tensor>& in, double smoothing) {
  const Values x = in[0].to_vector<double>();
  const std::int64_t classes = in[0].shape().back();
  const Shape rows = rows_of(in[0].shape());
  Values losses, log_sums;
  for (std::int64_t row = 0; row < rows.numel(); ++row) {
    const double* logits = x.data() + row * classes;
    const Values target = target_of(in[1], row, classes, smoothing);
    double most = logits[0], sum = 0.0, loss = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) most = std::max(most, logits[c]);
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - most);
    log_sums.push_back(std::log(sum));
    for (std::int64_t c = 0; c < classes; ++c)
      loss += target[static_cast<std::size_t>(c)] * (log_sums.back() - (logits[c] - most));
    losses.push_back(loss);
  }
  return {Tensor::from(losses, rows), Tensor::from(log_sums, rows)};
}

std::vector<Tensor> naive_pull(const std::vector<Tensor>& in, double smoothing) {
  const Values g = in[0].to_vector<double>(), x = in[1].to_vector<double>();
  const Values log_sums = in[3].to_vector<double>();
  const std::int64_t classes = in[1].shape().back();
  Values out(x.size());
  for (std::size_t row = 0; row < g.size(); ++row) {
    const Values target = target_of(in[2], static_cast<std::int64_t>(row), classes, smoothing);
    double mass = 0.0;
    for (double t : target) mass += t;
    const double* logits = x.data() + row * target.size();
    const double most = *std::max_element(logits, logits + target.size());
    for (std::size_t c = 0; c < target.size(); ++c) {
      const std::size_t at = row * target.size() + c;
      out[at] = g[row] * (mass * std::exp(x[at] - most - log_sums[row]) - target[c]);
    }
  }
  return {Tensor::from(out, in[1].shape())};
}

Tensor converted(const Tensor& x, DType dtype) {
  const Tensor result = Tensor::empty(x.shape(), dtype);
  result.assign(x);
  return result;
}

void add_rows(std::vector<OpCase>& rows, const std::string& label, const Tensor& logits,
              const Tensor& labels, double smoothing) {
  const Attrs attrs = Attrs::of(CrossEntropyAttrs{smoothing});
  OpCase forward{
      "softmax_cross_entropy", label, {logits, labels}, attrs, [smoothing](const auto& in) {
        return naive_loss(in, smoothing);
      }};
  forward.tolerance = 1e-4;
  forward.gradient_tolerance = 1e-4;
  rows.push_back(forward);
  const Shape shape = rows_of(logits.shape());
  OpCase backward{"softmax_cross_entropy_backward",
                  label,
                  {random_tensor(shape, 8), logits, labels, random_tensor(shape, 9, 3.0, 5.0)},
                  attrs,
                  [smoothing](const auto& in) { return naive_pull(in, smoothing); }};
  // The log-sum-exp of half logits is float32: see LossTest.
  backward.dtypes = {DType::float32, DType::float64};
  backward.tolerance = 1e-4;
  backward.gradient_tolerance = 1e-4;
  rows.push_back(backward);
}

std::vector<Tensor> naive_sigmoid_loss(const std::vector<Tensor>& in) {
  const Values x = in[0].to_vector<double>(), t = in[1].to_vector<double>();
  Values out;
  for (std::size_t i = 0; i < x.size(); ++i)
    out.push_back(std::max(x[i], 0.0) - x[i] * t[i] + std::log1p(std::exp(-std::abs(x[i]))));
  return {Tensor::from(out, in[0].shape())};
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> rows;
  for (double smoothing : {0.0, 0.1}) {
    const std::string with = smoothing > 0.0 ? ", smoothed" : "";
    for (DType dtype : {DType::int64, DType::int32, DType::int16, DType::uint8})
      add_rows(rows, std::string(name_of(dtype)) + with, random_tensor({5, 10}, 1, -3.0, 3.0),
               converted(random_indices({5}, 2, 0, 10), dtype), smoothing);
    add_rows(rows, "many classes" + with, random_tensor({3, 137}, 3, -3.0, 3.0),
             random_indices({3}, 4, 0, 137), smoothing);
    add_rows(rows, "two axes of rows" + with, random_tensor({2, 3, 7}, 3),
             random_indices({2, 3}, 4, 0, 7), smoothing);
    add_rows(rows, "one row" + with, random_tensor({7}, 3), random_indices({}, 4, 0, 7), smoothing);
    add_rows(rows, "one class" + with, random_tensor({4, 1}, 3), random_indices({4}, 4, 0, 1),
             smoothing);
    add_rows(rows, "no rows" + with, random_tensor({0, 5}, 3), random_indices({0}, 4, 0, 5),
             smoothing);
    add_rows(rows, "dense" + with, random_tensor({4, 19}, 5, -3.0, 3.0),
             random_tensor({4, 19}, 6, 0.0, 0.1), smoothing);
  }
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 37}})
    rows.push_back({"class_numbers",
                    shape.str(),
                    {converted(random_indices(shape, 1, -3, 100), DType::float64)},
                    {},
                    [](const auto& in) { return std::vector{converted(in[0], DType::int64)}; }});
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 37}})
    rows.push_back({"sigmoid_cross_entropy",
                    "",
                    {random_tensor(shape, 1, -5.0, 5.0), random_tensor(shape, 2, 0.0, 1.0)},
                    {},
                    naive_sigmoid_loss});
  rows.push_back({"sigmoid_cross_entropy",
                  "large logits",
                  {random_tensor({40}, 1, -500.0, 500.0), random_tensor({40}, 2, 0.0, 1.0)},
                  {},
                  naive_sigmoid_loss});
  return rows;
}

}  // namespace lockstep::testing
