// SPDX-License-Identifier: Apache-2.0
// What holds for every rule.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/message.h"
#include "tests/optim/rule_runner.h"

namespace lockstep::optim {
namespace {

using lockstep::testing::message_of;
using testing::all_rules;
using testing::random_floats;
using testing::RuleState;
using testing::run_step;

constexpr UpdateContext kContext{
    .learning_rate = 0.05, .weight_decay = 0.02, .gradient_scale = 0.3};

std::string text_of(const Optimizer& rule) {
  return fmt::format("{} ({})", rule.name(), rule.description());
}

TEST(EveryRule, GivesTheSameBitsHoweverAParameterIsCut) {
  constexpr std::size_t kCount = 211;
  const std::vector<std::vector<std::size_t>> cuts = {
      {1}, {7, 8, 9, 40, 41}, {16, 32, 63, 65, 127}, {100, 200, 210}};
  std::vector<std::size_t> singles(kCount - 1);
  std::iota(singles.begin(), singles.end(), 1);
  for (const auto& rule : all_rules())
    for (auto& cut : {cuts[0], cuts[1], cuts[2], cuts[3], singles}) {
      RuleState whole(*rule, random_floats(kCount, 1));
      RuleState pieces = whole;
      for (std::uint32_t t = 1; t <= 5; ++t) {
        UpdateContext context = kContext;
        context.step = t;
        const auto gradient = random_floats(kCount, 10 + t);
        run_step(*rule, context, whole, gradient);
        run_step(*rule, context, pieces, gradient, cut);
      }
      EXPECT_EQ(whole, pieces) << text_of(*rule);
    }
}

TEST(EveryRule, LeavesAnElementThatIsZeroAtZero) {
  for (const auto& rule : all_rules()) {
    RuleState state(*rule, random_floats(40, 1));
    for (std::uint32_t t = 1; t <= 5; ++t) {
      auto gradient = random_floats(40, 10 + t);
      for (std::size_t i = 0; i < 40; i += 3) gradient[i] = state.weight[i] = 0.0F;
      UpdateContext context = kContext;
      context.step = t;
      context.clip_value = t % 2 == 0 ? 0.1 : 0.0;
      run_step(*rule, context, state, gradient);
      for (std::size_t i = 0; i < 40; i += 3) {
        EXPECT_EQ(state.weight[i], 0.0F) << text_of(*rule);
        for (const auto& slot : state.slots) EXPECT_EQ(slot[i], 0.0F) << text_of(*rule);
      }
    }
  }
}

TEST(EveryRule, MovesAgainstTheGradient) {
  for (const auto& rule : all_rules()) {
    RuleState state(*rule, {0.0F, 0.0F});
    for (int t = 1; t <= 20; ++t)
      run_step(*rule, {.step = t, .learning_rate = 0.1}, state, {1.0F, -1.0F});
    EXPECT_LT(state.weight[0], 0.0F) << text_of(*rule);
    EXPECT_EQ(state.weight[1], -state.weight[0]) << text_of(*rule);
  }
}

TEST(EveryRule, ScalesTheGradientFirstAndThenClipsIt) {
  for (const auto& rule : all_rules()) {
    RuleState scaled(*rule, random_floats(33, 1));
    RuleState plain = scaled;
    auto gradient = random_floats(33, 2);
    run_step(*rule, {.learning_rate = 0.1, .gradient_scale = 0.25, .clip_value = 0.125}, scaled,
             gradient);
    for (float& g : gradient) g = std::clamp(0.25F * g, -0.125F, 0.125F);
    run_step(*rule, {.learning_rate = 0.1}, plain, gradient);
    EXPECT_EQ(scaled, plain) << text_of(*rule);
  }
}

TEST(EveryRule, LetsANanThrough) {
  for (const auto& rule : all_rules()) {
    if (rule->name() == "signum") continue;  // a sign of NaN is none
    for (const double clip : {0.0, 0.5}) {
      RuleState state(*rule, std::vector<float>(5, 1.0F));
      run_step(*rule, {.learning_rate = 0.1, .clip_value = clip}, state,
               std::vector<float>(5, std::numeric_limits<float>::quiet_NaN()));
      for (const float weight : state.weight) EXPECT_TRUE(std::isnan(weight)) << text_of(*rule);
    }
  }
}

TEST(EveryRule, DoesNothingToAnEmptyPiece) {
  for (const auto& rule : all_rules()) {
    RuleState state(*rule, {});
    run_step(*rule, kContext, state, {});
    EXPECT_TRUE(state.weight.empty());
  }
}

TEST(SumOfSquares, OfThePiecesIsThatOfTheWhole) {
  const auto values = random_floats(3 * kPieceElements + 77, 5);
  double naive = 0.0;
  double in_pieces = 0.0;
  for (const float value : values) naive += double{value} * double{value};
  for (std::size_t i = 0; i < count_pieces(values.size()); ++i) {
    const PieceRange range = piece_range(values.size(), i);
    in_pieces += piece_sum_of_squares(std::span(values).subspan(range.begin, range.size()));
  }
  EXPECT_EQ(count_pieces(values.size()), 4U);
  EXPECT_NEAR(in_pieces, naive, 1e-12 * naive);
}

// Element i in sum i % 16; the sums as a tree.
double sixteen_sums(const std::vector<float>& values) {
  double lanes[16] = {};
  for (std::size_t i = 0; i < values.size(); ++i)
    lanes[i % 16] += double{values[i]} * double{values[i]};
  for (int half = 8; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

TEST(SumOfSquares, HasOneOrderWhateverTheVectorsWidth) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {  // another order may round alike now and then
    const auto values = random_floats(1000 + seed, seed);
    EXPECT_EQ(piece_sum_of_squares(values), sixteen_sums(values));
  }
  EXPECT_EQ(piece_sum_of_squares({}), 0.0);
}

TEST(RuleOptions, OutOfRangeNumbersAreRefused) {
  EXPECT_EQ(message_of([] { sgd({.learning_rate = -1.0}); }),
            "sgd: learning_rate is -1, expected 0 or a number above it");
  EXPECT_EQ(message_of([] { sgd({.momentum = 1.0}); }),
            "sgd: momentum is 1, expected a number in [0, 1)");
  EXPECT_EQ(message_of([] { sgd({.nesterov = true}); }),
            "sgd: nesterov without momentum, expected a momentum above 0");
  EXPECT_EQ(message_of([] { adam({.beta2 = NAN}); }),
            "adam: beta2 is nan, expected a number in [0, 1)");
  EXPECT_EQ(message_of([] { adamw({.epsilon = 0.0}); }),
            "adamw: epsilon is 0, expected a number above 0");
  EXPECT_EQ(message_of([] { lars({.clip_norm = -2.0}); }),
            "lars: clip_norm is -2, expected 0 or a number above it");
  EXPECT_EQ(message_of([] { ftrl({.lambda1 = -0.1}); }),
            "ftrl: lambda1 is -0.1, expected 0 or a number above it");
}

}  // namespace
}  // namespace lockstep::optim
