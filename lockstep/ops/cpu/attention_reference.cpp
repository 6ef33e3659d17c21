// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/ops/attention_attrs.h"
#include "lockstep/ops/cpu/attention_problem.h"

namespace lockstep::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double factor, const double* x, double* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

struct Row {
  std::int64_t b, h, i;
};

// Where row i of length `depth` starts in [B, T, H, depth].
std::int64_t heads_last(const AttentionProblem& n, const Row& at, std::int64_t rows,
                        std::int64_t depth) {
  return ((at.b * rows + at.i) * n.heads + at.h) * depth;
}

// Calls f for every row of every head, with its index in [B * H * T] and that of its head.
template <class F>
void each_row(const AttentionProblem& problem, F&& f) {
  std::int64_t index = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::int64_t h = 0; h < problem.heads; ++h)
      for (std::int64_t i = 0; i < problem.rows; ++i)
        f(Row{b, h, i}, index++, b * problem.heads + h);
}

std::vector<double> scores_of(const AttentionProblem& problem, const MaskView& mask, const Row& row,
                              const double* q, const double* k) {
  std::vector<double> scores(static_cast<std::size_t>(problem.visible(row.i)));
  for (std::size_t j = 0; j < scores.size(); ++j)
    scores[j] =
        problem.scale * dot(q, k + static_cast<std::int64_t>(j) * problem.depth, problem.depth);
  if (!mask.none())
    mask.apply(scores.data(), row.b, row.h, row.i, static_cast<std::int64_t>(scores.size()));
  return scores;
}

double largest(const std::vector<double>& x) {
  double max = kNever;
  for (double value : x) max = std::isnan(value) ? value : std::max(max, value);
  return max;
}

// Relative to the largest, which may be -inf for a row that sees something: NaN then; -inf where
// nothing counts.
double log_of_sum(const std::vector<double>& x, double max, bool sees) {
  if (!sees) return kNever;
  double sum = 0.0;
  for (double value : x) sum += std::exp(value - max);
  return std::log(sum);
}

double probability(double score, double max, double log_sum) {
  return log_sum == kNever ? 0.0 : std::exp(score - max - log_sum);
}

}  // namespace

void attention_reference(const KernelCall& call) {
  const AttentionProblem problem(call.inputs[0], call.inputs[1], call.inputs[2],
                                 call.attrs.as<AttentionAttrs>());
  const MaskView mask(problem, call.inputs.size() > 3 ? &call.inputs[3] : nullptr);
  const double* q = call.inputs[0].as<double>();
  const std::int64_t depth = problem.depth, value_depth = problem.value_depth;
  each_row(problem, [&](const Row& row, std::int64_t index, std::int64_t head) {
    const double* k = call.inputs[1].as<double>() + head * problem.columns * depth;
    const double* v = call.inputs[2].as<double>() + head * problem.columns * value_depth;
    double* y = call.outputs[0].as<double>() + heads_last(problem, row, problem.rows, value_depth);
    const auto scores = scores_of(problem, mask, row, q + index * depth, k);
    const auto seen = static_cast<std::int64_t>(scores.size());
    const bool sees = mask.shows<double>(row.b, row.h, row.i, seen);
    const double max = largest(scores), log_sum = log_of_sum(scores, max, sees);
    call.outputs[1].as<double>()[index] = log_sum;
    std::fill_n(y, value_depth, 0.0);
    for (std::size_t j = 0; j < scores.size(); ++j)
      add_scaled(probability(scores[j], max, log_sum),
                 v + static_cast<std::int64_t>(j) * value_depth, y, value_depth);
  });
}

void attention_backward_reference(const KernelCall& call) {
  const AttentionProblem problem(call.inputs[1], call.inputs[2], call.inputs[3],
                                 call.attrs.as<AttentionAttrs>());
  const MaskView mask(problem, call.inputs.size() > 6 ? &call.inputs[6] : nullptr);
  const auto in = [&](std::size_t i) { return call.inputs[i].as<double>(); };
  // A row of gradient number i: in an output of its own, or in one of [B, T, 3, H, D].
  const auto out = [&](std::size_t i, const Row& at, std::int64_t rows, std::int64_t depth) {
    if (call.outputs.size() == 3)
      return call.outputs[i].as<double>() + heads_last(problem, at, rows, depth);
    const Row stacked{at.b, at.h, 3 * at.i + static_cast<std::int64_t>(i)};
    return call.outputs[0].as<double>() + heads_last(problem, stacked, 3 * rows, depth);
  };
  for (const TensorView& output : call.outputs)
    std::fill_n(output.as<double>(), output.numel(), 0.0);
  const std::int64_t depth = problem.depth, value_depth = problem.value_depth;
  each_row(problem, [&](const Row& row, std::int64_t index, std::int64_t head) {
    const std::int64_t keys = head * problem.columns * depth;
    const std::int64_t values = head * problem.columns * value_depth;
    const std::int64_t at = heads_last(problem, row, problem.rows, value_depth);
    const double* dy = in(0) + at;
    const double* q = in(1) + index * depth;
    double* dq = out(0, row, problem.rows, depth);
    const double delta = dot(dy, in(4) + at, value_depth);
    const auto scores = scores_of(problem, mask, row, q, in(2) + keys);
    const double max = largest(scores);
    for (std::size_t c = 0; c < scores.size(); ++c) {
      const auto j = static_cast<std::int64_t>(c);
      const double p = probability(scores[c], max, in(5)[index]);
      const double dp = dot(dy, in(3) + values + j * value_depth, value_depth);
      const double ds = p * (dp - delta) * problem.scale;
      const Row key{row.b, row.h, j};
      add_scaled(ds, in(2) + keys + j * depth, dq, depth);
      add_scaled(ds, q, out(1, key, problem.columns, depth), depth);
      add_scaled(p, dy, out(2, key, problem.columns, value_depth), value_depth);
    }
  });
}

}  // namespace lockstep::kernels
