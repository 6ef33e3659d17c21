// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/step_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lockstep::passes {
namespace {

using Steps = std::vector<std::size_t>;

// The same on a plain list.
void move_after(Steps& steps, std::size_t step, std::size_t place) {
  std::erase(steps, step);
  const auto at =
      place == StepOrder::kFront ? steps.begin() : std::find(steps.begin(), steps.end(), place) + 1;
  steps.insert(at, step);
}

TEST(StepOrder, IsThatOfAPlainListAfterManyMoves) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    StepOrder order;
    Steps expected;
    for (std::size_t i = 0; i < 60; ++i) {
      order.append();
      expected.push_back(i);
      const std::size_t step = random() % (i + 1);
      std::size_t place = random() % (i + 2);
      if (place == i + 1) place = StepOrder::kFront;
      if (place == step) continue;
      order.move_after(step, place);
      move_after(expected, step, place);
    }
    ASSERT_EQ(order.steps(), expected);
    for (std::size_t a = 0; a < 60; ++a)
      for (std::size_t b = a + 1; b < 60; ++b)
        ASSERT_TRUE(order.precedes(expected[a], expected[b]));
  }
}

TEST(StepOrder, GivesFewNewLabelsWhereverStepsArePut) {
  constexpr std::size_t kCount = 20000;
  StepOrder after_one, in_a_chain;
  for (std::size_t i = 0; i < kCount; ++i) {
    after_one.append();
    in_a_chain.append();
  }
  for (std::size_t i = 2; i < kCount; ++i) {
    after_one.move_after(i, 0);
    in_a_chain.move_after(i, i % 8 == 0 ? 0 : i - 1);
  }
  EXPECT_EQ(after_one.relabelled(), 0U);
  EXPECT_LT(in_a_chain.relabelled(), 4U);
}

}  // namespace
}  // namespace lockstep::passes
