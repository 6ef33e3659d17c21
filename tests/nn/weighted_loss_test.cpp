// SPDX-License-Identifier: Apache-2.0
// Class weights and labels that do not count, in losses and metrics.
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/metric.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/softmax.h"
#include "tests/message.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;

constexpr std::int64_t kIgnored = -100;

// The mean that PyTorch's cross_entropy gives, term by term.
double expected(const Tensor& x, const Labels& labels, const Values& weights, double s,
                std::optional<std::int64_t> ignored) {
  const Values logs = log_softmax(x).to_vector<double>();
  const auto classes = static_cast<std::size_t>(x.shape(-1));
  double total = 0, divisor = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (ignored == labels[i]) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    for (std::size_t c = 0; c < classes; ++c) {
      const double part = (c == label ? 1 - s : 0.0) + s / static_cast<double>(classes);
      total -= part * weights[c] * logs[i * classes + c];
    }
    divisor += weights[label];
  }
  return total / divisor;
}

nn::SoftmaxCrossEntropyLoss loss_with(double smoothing, bool weighted, bool ignoring) {
  nn::SoftmaxCrossEntropyOptions options{.smoothing = smoothing};
  if (weighted) options.class_weights = {0.5, 2.0, 0.0, 1.5};
  if (ignoring) options.ignore_label = kIgnored;
  return nn::SoftmaxCrossEntropyLoss(options);
}

TEST(WeightedLoss, MeanIsOverWhatCounts) {
  const Tensor x = random_tensor({5, 4}, 1, -2.0, 2.0);
  for (const double smoothing : {0.0, 0.3})
    for (const bool weighted : {false, true})
      for (const bool ignoring : {false, true}) {
        const Labels labels =
            ignoring ? Labels{1, kIgnored, 3, 2, kIgnored} : Labels{1, 0, 3, 2, 2};
        const Values weights = weighted ? Values{0.5, 2.0, 0.0, 1.5} : Values(4, 1.0);
        const auto ignored = ignoring ? std::optional(kIgnored) : std::nullopt;
        const auto loss = loss_with(smoothing, weighted, ignoring);
        EXPECT_NEAR(mean(loss(x, Tensor::from(labels, {5}))).item(),
                    expected(x, labels, weights, smoothing, ignored), 1e-9)
            << smoothing << weighted << ignoring;
      }
}

TEST(WeightedLoss, WhatDoesNotCountHasNoGradientAndCostsNothing) {
  const Tensor x = random_tensor({3, 4}, 1);
  autograd::attach_grad(x);
  Tensor loss;
  {
    const autograd::RecordScope record;
    loss = loss_with(0.1, true, true)(x, Tensor::from(Labels{kIgnored, 1, kIgnored}, {3}));
    autograd::backward(sum(loss));
  }
  const Values values = loss.to_vector<double>(), grads = autograd::gradient(x).to_vector<double>();
  EXPECT_EQ(values[0], 0.0);
  EXPECT_EQ(values[2], 0.0);
  EXPECT_GT(values[1], 0.0);
  for (std::size_t i = 0; i < grads.size(); ++i) EXPECT_EQ(grads[i] == 0.0, i < 4 || i >= 8) << i;
}

TEST(WeightedLoss, IsZeroWhereNothingCounts) {
  const Tensor none = Tensor::from(Labels{kIgnored, kIgnored}, {2});
  EXPECT_EQ(loss_with(0.0, true, true)(random_tensor({2, 4}, 1), none).to_vector<double>(),
            (Values{0, 0}));
}

TEST(WeightedLoss, OfPartsOfASampleIsTheMeanOverAllThatCount) {
  const Tensor x = random_tensor({2, 3, 4}, 1);
  const Labels labels{0, kIgnored, 3, 1, 1, kIgnored};
  const auto loss = loss_with(0.0, true, true);
  EXPECT_NEAR(mean(loss(x, Tensor::from(labels, {2, 3}))).item(),
              expected(x, labels, {0.5, 2.0, 0.0, 1.5}, 0.0, kIgnored), 1e-9);
}

TEST(WeightedLoss, TakesLogProbabilitiesAndProbabilitiesToo) {
  const Tensor x = random_tensor({3, 4}, 1), labels = Tensor::from(Labels{0, 3, 1}, {3});
  const Values weights{0.5, 2.0, 0.0, 1.5};
  const nn::SoftmaxCrossEntropyLoss from_logs({.from_logits = true, .class_weights = weights});
  const nn::SoftmaxCrossEntropyLoss from_scores({.class_weights = weights});
  EXPECT_NEAR(mean(from_logs(log_softmax(x), labels)).item(), mean(from_scores(x, labels)).item(),
              1e-9);
  // Of probabilities the mean is over the samples.
  const Tensor likely = softmax(random_tensor({3, 4}, 2));
  const Values logs = log_softmax(x).to_vector<double>(), t = likely.to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < 12; ++i) total -= weights[i % 4] * t[i] * logs[i];
  EXPECT_NEAR(mean(from_scores(x, likely)).item(), total / 3, 1e-9);
}

TEST(WeightedLoss, NamesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              nn::SoftmaxCrossEntropyLoss({.class_weights = {1.0, -1.0}});
            }),
            "SoftmaxCrossEntropyLoss: a class weight is -1, expected 0 or more, and finite");
  EXPECT_EQ(message_of([] {
              nn::SoftmaxCrossEntropyLoss({.class_weights = {1.0, 2.0}})(zeros({2, 3}),
                                                                         zeros({2}, DType::int64));
            }),
            "SoftmaxCrossEntropyLoss: there are 2 class weights, the prediction has 3 classes");
}

TEST(WeightedLoss, KLDivTakesLogarithmsOfTheTargetToo) {
  const Tensor p = log_softmax(random_tensor({3, 5}, 1)), t = softmax(random_tensor({3, 5}, 2));
  const Values plain = nn::KLDivLoss()(p, t).to_vector<double>();
  const Values logs = nn::KLDivLoss(true, -1, 1.0, true)(p, log_softmax(random_tensor({3, 5}, 2)))
                          .to_vector<double>();
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(logs[i], plain[i], 1e-9);
  const Tensor never = Tensor::from(Values{-INFINITY, 0.0}, {1, 2});
  EXPECT_NEAR(
      nn::KLDivLoss(true, -1, 1.0, true)(Tensor::from(Values{-3, -1}, {1, 2}), never).item(), 0.5,
      1e-9);
}

TEST(Metric, AccuraciesLeaveOutAnIgnoredLabel) {
  const Tensor scores = Tensor::from(Values{1, 2, 3, 3, 2, 1, 1, 3, 2}, {3, 3});
  const Tensor labels = Tensor::from(Labels{2, kIgnored, 0}, {3});
  for (const auto& [name, expected] : {std::pair("accuracy", 0.5), {"top_k_accuracy", 0.5}}) {
    const nn::MetricPtr metric = nn::metric(name, {.k = 2, .ignore_label = kIgnored});
    metric->update(labels, scores);
    EXPECT_EQ(metric->get().second, expected) << name;
  }
  nn::Accuracy numbers(-1, kIgnored);
  numbers.update(labels, Tensor::from(Labels{2, 1, 1}, {3}));
  EXPECT_EQ(numbers.get().second, 0.5);
}

}  // namespace
}  // namespace lockstep::testing
