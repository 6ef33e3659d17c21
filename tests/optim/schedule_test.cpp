// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/message.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::message_of;

TEST(LearningRateSchedule, ConstantStays) {
  const Schedule schedule = constant(0.1);
  EXPECT_EQ(schedule.rate(0), 0.1);
  EXPECT_EQ(schedule.rate(1'000'000), 0.1);
  EXPECT_EQ(schedule.description, "constant 0.1");
}

TEST(LearningRateSchedule, WarmUpRisesLinearlyToTheRate) {
  const Schedule schedule = constant(1.0, {.steps = 4, .from = 0.2});
  EXPECT_EQ(schedule.rate(0), 0.2);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.4);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 0.8);
  EXPECT_EQ(schedule.rate(4), 1.0);
  EXPECT_EQ(schedule.description, "constant 1, warm-up 4 steps from 0.2");
}

TEST(LearningRateSchedule, ConstantWarmUpStaysAtItsRate) {
  const Schedule schedule = constant(1.0, {.steps = 4, .from = 0.2, .constant = true});
  EXPECT_EQ(schedule.rate(0), 0.2);
  EXPECT_EQ(schedule.rate(3), 0.2);
  EXPECT_EQ(schedule.rate(4), 1.0);
}

TEST(LearningRateSchedule, FactorDropsAtMultiplesAndStops) {
  const Schedule schedule = factor(1.0, 10, 0.5, 0.2);
  EXPECT_EQ(schedule.rate(0), 1.0);
  EXPECT_EQ(schedule.rate(9), 1.0);
  EXPECT_EQ(schedule.rate(10), 0.5);
  EXPECT_EQ(schedule.rate(20), 0.25);
  EXPECT_EQ(schedule.rate(30), 0.2);
  EXPECT_EQ(schedule.rate(1'000'000'000), 0.2);
}

TEST(LearningRateSchedule, FactorCountsTheWarmUpsSteps) {
  const Schedule schedule = factor(1.0, 10, 0.5, 0.0, {.steps = 15, .from = 0.0});
  EXPECT_DOUBLE_EQ(schedule.rate(14), 14.0 / 15.0);
  EXPECT_EQ(schedule.rate(15), 0.5);
}

TEST(LearningRateSchedule, MultiFactorDropsAtItsSteps) {
  const Schedule schedule = multi_factor(1.0, {3, 7}, 0.5);
  EXPECT_EQ(schedule.rate(0), 1.0);
  EXPECT_EQ(schedule.rate(2), 1.0);
  EXPECT_EQ(schedule.rate(3), 0.5);
  EXPECT_EQ(schedule.rate(6), 0.5);
  EXPECT_EQ(schedule.rate(7), 0.25);
  EXPECT_EQ(schedule.rate(700), 0.25);
}

TEST(LearningRateSchedule, PolynomialGoesFromTheRateToTheFinalOne) {
  const Schedule schedule = polynomial(1.0, 10, 2.0, 0.1);
  EXPECT_EQ(schedule.rate(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(5), 0.1 + 0.9 * 0.25);
  EXPECT_EQ(schedule.rate(10), 0.1);
  EXPECT_EQ(schedule.rate(11), 0.1);
}

TEST(LearningRateSchedule, PolynomialOfPowerZeroEndsAtTheFinalRateToo) {
  const Schedule schedule = polynomial(1.0, 10, 0.0, 0.1);
  EXPECT_EQ(schedule.rate(9), 1.0);
  EXPECT_EQ(schedule.rate(10), 0.1);
}

TEST(LearningRateSchedule, CosineIsHalfWayInTheMiddle) {
  const Schedule schedule = cosine(1.0, 100, 0.2);
  EXPECT_EQ(schedule.rate(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(50), 0.6);
  EXPECT_EQ(schedule.rate(100), 0.2);
  EXPECT_EQ(schedule.rate(1000), 0.2);
}

TEST(LearningRateSchedule, StepsThatEndIncludeTheWarmUp) {
  const Schedule schedule = cosine(1.0, 110, 0.0, {.steps = 10, .from = 0.0});
  EXPECT_DOUBLE_EQ(schedule.rate(5), 0.5);
  EXPECT_EQ(schedule.rate(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.rate(60), 0.5);
  EXPECT_EQ(schedule.rate(110), 0.0);
}

TEST(LearningRateSchedule, BadNumbersAreRefused) {
  EXPECT_EQ(message_of([] { constant(-1.0); }),
            "constant: rate is -1, expected 0 or a number above it");
  EXPECT_EQ(message_of([] { constant(NAN); }),
            "constant: rate is nan, expected 0 or a number above it");
  EXPECT_EQ(message_of([] { constant(0.1, {.steps = 3, .from = 0.2}); }),
            "constant: warm-up from 0.2, expected at most the rate 0.1");
  EXPECT_EQ(message_of([] { constant(0.1, {.steps = -3}); }),
            "constant: warm-up of -3 steps, expected 0 or more");
  EXPECT_EQ(message_of([] { factor(0.1, 0, 0.5); }), "factor: every 0 steps, expected 1 or more");
  EXPECT_EQ(message_of([] { factor(0.1, 1, 1.5); }),
            "factor: factor is 1.5, expected a number in (0, 1]");
  EXPECT_EQ(message_of([] {
              multi_factor(0.1, {5, 5}, 0.5);
            }),
            "multi_factor: steps are [5, 5], expected 1 or more and increasing");
  EXPECT_EQ(message_of([] { cosine(0.1, 10, 0.0, {.steps = 10}); }),
            "cosine: 10 steps, expected more than the warm-up's 10");
  EXPECT_EQ(message_of([] { polynomial(0.1, 0); }),
            "polynomial: 0 steps, expected more than the warm-up's 0");
}

TEST(ReduceOnPlateau, CountsEvaluationsWithoutABetterOne) {
  const Plateau plateau{.patience = 2};
  EXPECT_EQ(count_reductions(plateau, std::vector<double>{}), 0);
  EXPECT_EQ(count_reductions(plateau, std::vector<double>{1, 1}), 0);
  EXPECT_EQ(count_reductions(plateau, std::vector<double>{1, 1, 1}), 1);
  EXPECT_EQ(count_reductions(plateau, std::vector<double>{1, 2, 0.5, 2, 2, 2, 2}), 2);
  EXPECT_EQ(count_reductions(plateau, std::vector<double>{NAN, NAN, NAN, NAN}), 2);
}

TEST(ReduceOnPlateau, HasADirectionALeastGainAndACooldown) {
  const std::vector<double> rising{1, 2, 3, 4, 5};
  EXPECT_EQ(count_reductions({.maximize = true, .patience = 1}, rising), 0);
  EXPECT_EQ(count_reductions({.maximize = false, .patience = 1}, rising), 4);
  EXPECT_EQ(count_reductions({.maximize = true, .patience = 1, .min_delta = 1.5}, rising), 2);
  EXPECT_EQ(count_reductions({.patience = 1, .cooldown = 1}, rising), 2);
}

TEST(ReduceOnPlateau, DescribesItselfAndRefusesWhatMakesNoSense) {
  EXPECT_EQ(
      reduce_on_plateau({.metric = "loss", .factor = 0.5}, constant(0.1)).description,
      "constant 0.1, x 0.5 on a plateau of loss (minimize, patience 10, min_delta 0, cooldown "
      "0), to 0");
  EXPECT_EQ(message_of([] { reduce_on_plateau({.factor = 1.0}); }),
            "reduce_on_plateau: factor is 1, expected a number in (0, 1)");
  EXPECT_EQ(message_of([] { reduce_on_plateau({.patience = 0}); }),
            "reduce_on_plateau: patience is 0, expected 1 or more");
}

}  // namespace
}  // namespace lockstep::optim
