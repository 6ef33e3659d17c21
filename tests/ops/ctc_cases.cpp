// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/loss_attrs.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;

// What a path says: repeated classes once, blanks not at all.
Labels said(const Labels& path, std::int64_t blank) {
  Labels result;
  for (std::size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) result.push_back(path[t]);
  return result;
}

// One sample's logits as rows of probabilities.
std::vector<Values> probabilities(const Tensor& logits, std::int64_t sample, std::int64_t steps) {
  const Values x = logits.to_vector<double>();
  const std::int64_t samples = logits.shape(1), classes = logits.shape(2);
  std::vector<Values> rows;
  for (std::int64_t t = 0; t < steps; ++t) {
    Values row;
    double sum = 0.0;
    for (std::int64_t c = 0; c < classes; ++c)
      row.push_back(std::exp(x[static_cast<std::size_t>((t * samples + sample) * classes + c)]));
    for (double p : row) sum += p;
    for (double& p : row) p /= sum;
    rows.push_back(row);
  }
  return rows;
}

Labels label_of(const Tensor& labels, std::int64_t sample) {
  const Labels all = labels.to_vector<std::int64_t>();
  Labels result;
  for (std::int64_t i = 0; i < labels.shape(1); ++i) {
    const std::int64_t label = all[static_cast<std::size_t>(sample * labels.shape(1) + i)];
    if (label < 0) break;
    result.push_back(label);
  }
  return result;
}

// Every path there is: the probability of those that say the label, and of those among them which
// are in each class at each step.
struct Paths {
  double total = 0.0;
  std::vector<Values> visits;
};

Paths walk_all(const std::vector<Values>& p, const Labels& label, std::int64_t blank,
               std::size_t classes) {
  Paths result;
  result.visits.assign(p.size(), Values(classes));
  Labels path(p.size());
  while (true) {
    double probability = 1.0;
    for (std::size_t t = 0; t < p.size(); ++t)
      probability *= p[t][static_cast<std::size_t>(path[t])];
    if (said(path, blank) == label) {
      result.total += probability;
      for (std::size_t t = 0; t < p.size(); ++t)
        result.visits[t][static_cast<std::size_t>(path[t])] += probability;
    }
    std::size_t t = 0;
    while (t < path.size() && ++path[t] == static_cast<std::int64_t>(classes)) path[t++] = 0;
    if (t == path.size()) return result;
  }
}

std::vector<Tensor> naive_loss(const std::vector<Tensor>& in, std::int64_t blank) {
  Values losses;
  for (std::int64_t n = 0; n < in[0].shape(1); ++n) {
    const std::int64_t steps = in[2].to_vector<std::int64_t>()[static_cast<std::size_t>(n)];
    const auto p = probabilities(in[0], n, steps);
    const auto classes = static_cast<std::size_t>(in[0].shape(2));
    losses.push_back(-std::log(walk_all(p, label_of(in[1], n), blank, classes).total));
  }
  return {Tensor::from(losses, {in[0].shape(1)})};
}

std::vector<Tensor> naive_gradient(const std::vector<Tensor>& in, std::int64_t blank) {
  const Tensor& logits = in[1];
  const std::int64_t samples = logits.shape(1), classes = logits.shape(2);
  const Values grad = in[0].to_vector<double>();
  Values out(static_cast<std::size_t>(logits.numel()));
  for (std::int64_t n = 0; n < samples; ++n) {
    const std::int64_t steps = in[3].to_vector<std::int64_t>()[static_cast<std::size_t>(n)];
    const auto p = probabilities(logits, n, steps);
    const Paths paths = walk_all(p, label_of(in[2], n), blank, static_cast<std::size_t>(classes));
    if (paths.total == 0.0) continue;
    for (std::size_t t = 0; t < p.size(); ++t)
      for (std::size_t c = 0; c < p[t].size(); ++c)
        out[static_cast<std::size_t>((static_cast<std::int64_t>(t) * samples + n) * classes) + c] =
            grad[static_cast<std::size_t>(n)] * (p[t][c] - paths.visits[t][c] / paths.total);
  }
  return {Tensor::from(out, logits.shape())};
}

void add_rows(std::vector<OpCase>& rows, const std::string& label, const Tensor& logits,
              const Labels& labels, const Labels& lengths, std::int64_t blank) {
  const std::int64_t samples = logits.shape(1);
  const std::int64_t longest =
      samples == 0 ? 2 : static_cast<std::int64_t>(labels.size()) / samples;
  const Tensor marked = Tensor::from(labels, {samples, longest});
  const Tensor steps = Tensor::from(lengths, {samples});
  const Attrs attrs = Attrs::of(CtcAttrs{blank});
  rows.push_back({"ctc_loss", label, {logits, marked, steps}, attrs, [blank](const auto& in) {
                    return naive_loss(in, blank);
                  }});
  rows.push_back({"ctc_loss_backward",
                  label,
                  {random_tensor({samples}, 7), logits, marked, steps},
                  attrs,
                  [blank](const auto& in) { return naive_gradient(in, blank); }});
}

}  // namespace

std::vector<OpCase> ctc_cases() {
  std::vector<OpCase> rows;
  add_rows(rows, "one label", random_tensor({3, 1, 3}, 1, -2.0, 2.0), {1}, {3}, 0);
  add_rows(rows, "one step", random_tensor({1, 2, 3}, 1), {1, 2}, {1, 1}, 0);
  add_rows(rows, "no label", random_tensor({4, 2, 2}, 1), {}, {4, 3}, 1);
  add_rows(rows, "no samples", random_tensor({4, 0, 3}, 1), {}, {}, 1);
  add_rows(rows, "lengths and ends", random_tensor({6, 3, 4}, 2, -2.0, 2.0),
           {1, 2, 3, 2, -1, 1, 3, 1, -1}, {6, 4, 5}, 0);
  add_rows(rows, "a repeated label", random_tensor({5, 2, 3}, 3, -2.0, 2.0), {0, 0, 1, 1, 0, 0},
           {5, 5}, 2);
  add_rows(rows, "a blank in the middle", random_tensor({5, 2, 4}, 4, -2.0, 2.0), {0, 3, 2, 3},
           {5, 2}, 1);
  add_rows(rows, "a step that does not count", random_tensor({5, 1, 3}, 5), {1, -1}, {2}, 0);
  return rows;
}

}  // namespace lockstep::testing
