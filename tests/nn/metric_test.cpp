// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/metric.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"
#include "tests/message.h"
#include "tests/ops/gradient_at.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;

Tensor labels(const Labels& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

double value_of(nn::Metric& metric, const Tensor& label, const Tensor& prediction) {
  metric.update(label, prediction);
  return metric.get().second;
}

const Tensor kScores = Tensor::from(Values{0.1, 0.7, 0.2, 0.5, 0.3, 0.2, 0.3, 0.3, 0.4}, {3, 3});

TEST(Metric, HasNoValueBeforeTheFirstUpdateAndAfterAReset) {
  for (const std::string& name : nn::metric_names()) {
    const nn::MetricPtr metric = nn::metric(name);
    EXPECT_TRUE(std::isnan(metric->get().second)) << name;
    const Tensor label = labels({0, 1, 1});
    metric->update(
        label, name[0] == 'm' || name[0] == 'r' || name[0] == 'p' || name[0] == 'f' || name == "auc"
                   ? (name == "perplexity" ? kScores : doubles({0.2, 0.7, 0.6}))
                   : kScores);
    EXPECT_FALSE(std::isnan(metric->get().second)) << name;
    metric->reset();
    EXPECT_TRUE(std::isnan(metric->get().second)) << name;
  }
}

TEST(Metric, AccuracyTakesScoresAndClassNumbers) {
  nn::Accuracy scores, classes, second(1);
  EXPECT_DOUBLE_EQ(value_of(scores, labels({1, 2, 2}), kScores), 2.0 / 3);
  EXPECT_DOUBLE_EQ(value_of(classes, labels({1, 2, 2, 0}), doubles({1, 2, 0, 0})), 0.75);
  const Tensor grid = random_tensor({2, 3, 4}, 1);
  nn::Accuracy last;
  const Tensor wanted = random_indices({2, 4}, 2, 0, 3);
  EXPECT_EQ(value_of(second, wanted, grid), value_of(last, wanted, transpose(grid, {0, 2, 1})));
}

TEST(Metric, AccumulatesOverBatches) {
  nn::Accuracy accuracy;
  accuracy.update(labels({1}), doubles({1}));
  accuracy.update(labels({1, 1, 1}), doubles({0, 0, 1}));
  EXPECT_EQ(accuracy.get(), (nn::Metric::Value{"accuracy", 0.5}));
}

TEST(Metric, TopKCountsTheKLargest) {
  nn::TopKAccuracy one(1), two(2), three(3);
  const Tensor label = labels({2, 2, 1});
  EXPECT_DOUBLE_EQ(value_of(one, label, kScores), 0.0);
  EXPECT_DOUBLE_EQ(value_of(two, label, kScores), 1.0 / 3);
  EXPECT_DOUBLE_EQ(value_of(three, label, kScores), 1.0);
  EXPECT_EQ(two.get().first, "top_2_accuracy");
}

TEST(Metric, F1AndMCCComeFromTheTableOfRightAndWrong) {
  // 3 true and 1 false positive, 4 true and 2 false negative.
  const Tensor label = labels({1, 1, 1, 0, 0, 0, 0, 0, 1, 1});
  const Tensor chance = doubles({.9, .6, .7, .8, .1, .2, .3, .4, .1, .5});
  nn::F1 f1, from_scores;
  nn::MCC mcc;
  EXPECT_DOUBLE_EQ(value_of(f1, label, chance), 6.0 / 9.0);
  EXPECT_DOUBLE_EQ(value_of(mcc, label, chance), (3.0 * 4 - 1 * 2) / std::sqrt(4.0 * 5 * 5 * 6));
  const Tensor scores = stack({1.0 - chance, chance}, 1);
  EXPECT_DOUBLE_EQ(value_of(from_scores, label, scores), 6.0 / 9.0);
  nn::F1 none;
  EXPECT_EQ(value_of(none, labels({0, 0}), doubles({0, 0})), 0.0);
  nn::MCC one_sided;
  EXPECT_EQ(value_of(one_sided, labels({1, 1}), doubles({1, 1})), 0.0);
}

TEST(Metric, ErrorsOfNumbersAreMeansOverElements) {
  const Tensor label = doubles({1, 2, 3, 4}), prediction = doubles({1, 4, 2, 4});
  nn::MAE mae;
  nn::MSE mse;
  nn::RMSE rmse;
  EXPECT_DOUBLE_EQ(value_of(mae, label, prediction), 0.75);
  EXPECT_DOUBLE_EQ(value_of(mse, label, prediction), 1.25);
  EXPECT_DOUBLE_EQ(value_of(rmse, label, prediction), std::sqrt(1.25));
}

TEST(Metric, CrossEntropyAndPerplexityOfScoresAndOfProbabilities) {
  const Tensor scores = random_tensor({4, 5}, 1, -2.0, 2.0), label = random_indices({4}, 2, 0, 5);
  const Values p = softmax(scores).to_vector<double>();
  const Labels wanted = label.to_vector<std::int64_t>();
  double mean = 0.0;
  for (std::size_t i = 0; i < 4; ++i)
    mean -= std::log(p[i * 5 + static_cast<std::size_t>(wanted[i])]) / 4;
  nn::CrossEntropy of_scores, of_probabilities({.from_scores = false});
  nn::Perplexity perplexity;
  EXPECT_NEAR(value_of(of_scores, label, scores), mean, 1e-12);
  EXPECT_NEAR(value_of(of_probabilities, label, softmax(scores)), mean, 1e-12);
  EXPECT_NEAR(value_of(perplexity, label, scores), std::exp(mean), 1e-12);
}

TEST(Metric, PerplexityIgnoresOneLabel) {
  nn::Perplexity some({.ignore_label = -1}), all;
  const double cut = value_of(some, labels({0, -1, 2}), kScores);
  const Tensor kept = concat({slice_axis(kScores, 0, 0, 1), slice_axis(kScores, 0, 2, 3)}, 0);
  EXPECT_DOUBLE_EQ(cut, value_of(all, labels({0, 2}), kept));
}

TEST(Metric, PearsonCorrelationIsThatOfTheWholeVectors) {
  const Tensor a = random_tensor({40}, 1) + 100.0, b = a * 0.5 + random_tensor({40}, 2);
  const Values x = a.to_vector<double>(), y = b.to_vector<double>();
  double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < 40; ++i) mean_x += x[i] / 40, mean_y += y[i] / 40;
  for (std::size_t i = 0; i < 40; ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  nn::PearsonCorrelation metric;
  metric.update(slice_axis(a, 0, 0, 13), slice_axis(b, 0, 0, 13));
  EXPECT_NEAR(value_of(metric, slice_axis(a, 0, 13, 40), slice_axis(b, 0, 13, 40)),
              xy / std::sqrt(xx * yy), 1e-12);
}

TEST(Metric, LossAndCustomAreMeans) {
  nn::LossMetric loss;
  loss.update({}, doubles({1, 2}));
  loss.update({}, doubles({6}));
  EXPECT_DOUBLE_EQ(loss.get().second, 3.0);
  nn::CustomMetric custom("first",
                          [](const Tensor&, const Tensor& p) { return p.to_vector<double>()[0]; });
  custom.update(labels({0, 0, 0}), doubles({1, 9, 9}));
  custom.update(labels({0}), doubles({5}));
  EXPECT_EQ(custom.get(), (nn::Metric::Value{"first", 2.0}));
}

TEST(Metric, ACompositeUpdatesAllOfThem) {
  nn::CompositeMetric both;
  both.add(nn::metric("accuracy")).add(nn::metric("top_k_accuracy", {.k = 2}));
  both.update(labels({1, 1, 1}), kScores);
  ASSERT_EQ(both.get_all().size(), 2u);
  EXPECT_EQ(both.get().first, "accuracy");
  EXPECT_DOUBLE_EQ(both.get_all()[0].second, 1.0 / 3);
  EXPECT_EQ(both.get_all()[1].first, "top_2_accuracy");
  EXPECT_DOUBLE_EQ(both.get_all()[1].second, 2.0 / 3);
}

TEST(Metric, FloatsThatAreNoClassNumberAreRefused) {
  for (const double bad : {std::nan(""), 1.5}) {
    const Tensor label = Tensor::from(std::vector<double>{0, bad}, {2}),
                 scores = Tensor::full({2, 3}, 1.0);
    const std::string reason = fmt::format(": label {} of row 1 is no class number", bad);
    EXPECT_EQ(message_of([&] { nn::Accuracy().update(label, scores); }), "accuracy" + reason);
    EXPECT_EQ(message_of([&] { nn::TopKAccuracy(2).update(label, scores); }),
              "top_2_accuracy" + reason);
    EXPECT_EQ(message_of([&] { nn::CrossEntropy().update(label, scores); }),
              "cross_entropy" + reason);
  }
}

TEST(Metric, BadInputsAreNamed) {
  EXPECT_EQ(
      message_of<NotFound>([] { nn::metric("recall"); }),
      "metric: there is no 'recall' (there are: accuracy, top_k_accuracy, f1, mcc, auc, mae, mse, "
      "rmse, cross_entropy, perplexity, pearson_correlation, loss)");
  EXPECT_EQ(message_of([] {
              nn::Accuracy().update(labels({1, 2}), kScores);
            }),
            "accuracy: label has shape [2], which does not fit predictions of shape [3, 3]");
  EXPECT_EQ(message_of([] {
              nn::Accuracy(2).update(labels({1, 2}), kScores);
            }),
            "accuracy: predictions have shape [3, 3], expected classes along axis 2");
  EXPECT_EQ(message_of([] {
              nn::MAE().update(labels({1, 2}), {});
            }),
            "mae: the prediction is undefined");
  EXPECT_EQ(message_of([] {
              nn::CrossEntropy().update(labels({1, 2, 3}), kScores);
            }),
            "cross_entropy: label 3 of row 2 is outside 0..2");
  EXPECT_EQ(message_of([] { nn::F1().update(labels({2}), doubles({1})); }),
            "f1: label is 2, expected 0 or 1");
  EXPECT_EQ(message_of([] {
              nn::F1().update(labels({1, 1, 1}), kScores);
            }),
            "f1: predictions have 3 classes, expected 2");
  EXPECT_EQ(message_of([] { nn::TopKAccuracy(0); }), "top_k_accuracy: k is 0, expected 1 or more");
}

}  // namespace
}  // namespace lockstep::testing
