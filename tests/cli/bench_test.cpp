// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/cli/bench_step.h"
#include "lockstep/cli/op_table.h"
#include "lockstep/cli/worker.h"

namespace lockstep::cli {
namespace {

TEST(Bench, TheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({3, 1, 2}), 2.0);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Bench, TheFirstLayersDataGradientIsNotCounted) {
  const double first = 2.0 * 784 * 128, second = 2.0 * 128 * 10;
  EXPECT_EQ(recipe_flops("mnist-mlp"), 2 * first + 3 * second);
}

TEST(Bench, EveryRecipeHasItsFlops) {
  for (const std::string& name : recipe_names()) EXPECT_GT(recipe_flops(name), 0) << name;
  // 0.56 G multiplications forward is what the literature gives for ResNet-18 on CIFAR.
  EXPECT_NEAR(recipe_flops("cifar-resnet18") / 6, 0.556e9, 0.01e9);
}

TEST(Bench, OperandsOfABenchmarkAreTheSameOnBothSides) {
  // Computed by bench/peers/ops_peer.py's operand().
  EXPECT_FLOAT_EQ(make_operand({{2}}, 0).to_vector<float>()[0], 0.11803395F);
  EXPECT_EQ(make_operand({{3}, 10}, 1).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{3, 3, 6}));
}

TEST(Bench, AnOpsCaseSaysItsShapes) {
  const OpBench bench{"take", {{{2, 3}}, {{4}, 10}}, {}};
  EXPECT_EQ(bench.str(), "take f:2,3 i10:4");
}

}  // namespace
}  // namespace lockstep::cli
