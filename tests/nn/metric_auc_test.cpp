// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/metric_auc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/tensor/philox.h"
#include "tests/message.h"
#include "tests/ops/gradient_at.h"

namespace lockstep::testing {
namespace {

using Values = std::vector<double>;

double auc_of(const Values& labels, const Values& scores) {
  nn::AUC auc;
  auc.update(doubles(labels), doubles(scores));
  return auc.get().second;
}

// The definition: all pairs of a positive and a negative sample.
double naive_auc(const Values& labels, const Values& scores) {
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < labels.size(); ++i)
    for (std::size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] != 1.0 || labels[j] != 0.0) continue;
      right += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
      pairs += 1.0;
    }
  return right / pairs;
}

TEST(AUC, IsThePartOfPairsInTheRightOrder) {
  EXPECT_EQ(auc_of({0, 0, 1, 1}, {0.1, 0.4, 0.35, 0.8}), 0.75);
  EXPECT_EQ(auc_of({0, 1}, {-3, 5}), 1.0);
  EXPECT_EQ(auc_of({1, 0}, {-3, 5}), 0.0);
  EXPECT_EQ(auc_of({0, 1, 0, 1}, {2, 2, 2, 2}), 0.5);
}

TEST(AUC, IsThatOfTheDefinitionWithManyEqualScores) {
  for (const std::uint32_t levels : {2U, 7U, 1000000U}) {
    Values labels, scores;
    for (std::uint64_t i = 0; i < 700; ++i) {
      labels.push_back(random_bits({1, levels, 0, 0}, i) % 3 == 0 ? 1.0 : 0.0);
      scores.push_back(random_bits({1, levels, 0, 1}, i) % levels + labels.back() * levels / 5.0);
    }
    EXPECT_DOUBLE_EQ(auc_of(labels, scores), naive_auc(labels, scores)) << levels;
  }
}

TEST(AUC, IsOfAllBatchesTogether) {
  const Values labels{0, 1, 1, 0, 1, 0}, scores{0.3, 0.2, 0.9, 0.2, 0.4, 0.8};
  nn::AUC batches;
  for (std::size_t i = 0; i < labels.size(); i += 2)
    batches.update(doubles({labels[i], labels[i + 1]}), doubles({scores[i], scores[i + 1]}));
  EXPECT_EQ(batches.get().second, naive_auc(labels, scores));
  batches.reset();
  EXPECT_TRUE(std::isnan(batches.get().second));
}

TEST(AUC, TakesScoresOfBothClasses) {
  nn::AUC auc;
  auc.update(doubles({0, 1, 1}), Tensor::from(Values{2, 1, 0, 5, 4, 4.5}, {3, 2}));
  EXPECT_EQ(auc.get().second, 1.0);
}

TEST(AUC, OfANaNOrOfOneClassIsNone) {
  EXPECT_TRUE(std::isnan(auc_of({0, 1, 1}, {1, std::nan(""), 3})));
  EXPECT_TRUE(std::isnan(auc_of({1, 1}, {1, 2})));
  EXPECT_TRUE(std::isnan(auc_of({0, 0}, {1, 2})));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(auc_of({0, 1, 1}, {-infinity, 2, infinity}), 1.0);
}

TEST(AUC, RefusesWhatItCannotMean) {
  EXPECT_EQ(message_of([] { auc_of({0, 2}, {1, 2}); }), "auc: label is 2, expected 0 or 1");
  EXPECT_EQ(message_of([] {
              auc_of({0, 1, 1}, {1, 2});
            }),
            "auc: label has shape [3], which does not fit predictions of shape [2]");
}

}  // namespace
}  // namespace lockstep::testing
