// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/op_table.h"
#include "bench/ps_bench.h"
#include "bench/responder.h"
#include "bench/scale_bench.h"
#include "bench/side.h"
#include "bench/step_bench.h"
#include "bench/train_bench.h"
#include "lockstep/graph/flops.h"
#include "lockstep/graph/trace.h"
#include "lockstep/recipes/recipe.h"
#include "tests/message.h"

namespace lockstep::bench {
namespace {

TEST(Bench, TheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({3, 1, 2}), 2.0);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Bench, ARatioIsTakenWithinEachRound) {
  EXPECT_EQ(median_ratio({2, 40, 9}, {1, 10, 3}), 3.0);
  EXPECT_EQ(median_ratio({}, {}), 0.0);
}

TEST(Bench, TheFastestSideIsThatOfTheHighestMedian) {
  std::vector<Side> sides(2);
  sides[0].rates = {1, 2, 100};
  sides[1].rates = {3, 3, 3};
  EXPECT_EQ(fastest(sides), &sides[1]);
  EXPECT_EQ(fastest({}), nullptr);
}

TEST(Bench, EfficiencyIsOverTheCoresThatAreThere) {
  const ScaleSetup first{1, 1, {10, 20}}, four{4, 1, {18, 36}};
  EXPECT_DOUBLE_EQ(scaling_of(four, first, 2)["speedup"].get<double>(), 1.8);
  EXPECT_DOUBLE_EQ(scaling_of(four, first, 2)["efficiency"].get<double>(), 0.9);
  EXPECT_DOUBLE_EQ(scaling_of(four, first, 64)["efficiency"].get<double>(), 0.45);
}

TEST(Bench, RunsThatEndWithOtherParametersAreNoMeasurement) {
  std::vector<ScaleSetup> setups{{1, 1, {1}, "aa"}, {2, 3, {1}, "aa"}};
  EXPECT_NO_THROW(check_same_parameters("mnist-mlp", setups));
  setups[1].params_sha256 = "bb";
  EXPECT_EQ(testing::message_of<Corrupt>([&] { check_same_parameters("mnist-mlp", setups); }),
            "bench scale: mnist-mlp: --workers 2 --threads 3 gives other parameters than --workers "
            "1 --threads 1");
}

TEST(Bench, StoresInStepThatEndWithOtherParametersAreNoMeasurement) {
  std::vector<StoreRuns> all{{"local", true, {}, {{"params_sha256", "aa"}}},
                             {"ps_async", false, {}, {{"params_sha256", "bb"}}},
                             {"ps_sync", true, {}, {{"params_sha256", "aa"}}}};
  EXPECT_NO_THROW(check_same_parameters("mnist-mlp", all));
  all[2].last["params_sha256"] = "cc";
  EXPECT_EQ(testing::message_of<Corrupt>([&] { check_same_parameters("mnist-mlp", all); }),
            "bench ps: mnist-mlp: ps_sync gives other parameters than local");
}

TEST(Bench, CasesAreChosenByNameInTheirOwnOrder) {
  const std::vector<TrainCase> chosen = chosen_cases("bench x", {"char-gpt", "mnist-mlp"});
  ASSERT_EQ(chosen.size(), 2);
  EXPECT_EQ(chosen[0].model, "mnist-mlp");
  EXPECT_EQ(chosen_cases("bench x", {}).size(), train_cases().size());
  EXPECT_TRUE(testing::message_of<NotFound>([] {
                chosen_cases("bench x", {"mnist"});
              }).starts_with("bench x: there is no model 'mnist'; there are mnist-mlp, "));
}

TEST(Bench, EveryTrainingCaseIsARecipeWhoseBatchEightShardsDivide) {
  for (const TrainCase& what : train_cases()) {
    EXPECT_EQ(recipes::find_recipe(what.model).name, what.model);
    EXPECT_EQ(what.batch % 8, 0);
  }
}

TEST(Bench, TheFirstLayersDataGradientIsNotCounted) {
  const double first = 2.0 * 784 * 128, second = 2.0 * 128 * 10;
  EXPECT_EQ(make_step_runner("mnist-mlp", "float32")->flops_per_sample, 2 * first + 3 * second);
}

TEST(Bench, ARecurrentLayerCountsItsWeightsOnceForEachTokenAndGradient) {
  const double layer = 2.0 * 100 * (128 + 256) * 4 * 256, last = 2.0 * 256 * 2;
  EXPECT_EQ(make_step_runner("text-lstm", "float32")->flops_per_sample, 3 * (layer + last));
}

TEST(Bench, ResNetHasAsManyMultiplicationsAsTheLiteratureSays) {
  const nn::BlockPtr net = recipes::find_recipe("cifar-resnet18").net_without_dropout();
  net->initialize();
  const Infos image{{{1, 3, 32, 32}, DType::float32, {}}};
  net->complete_shapes(image);
  const Graph graph = trace([&](const auto& x) { return (*net)(x); }, image);
  EXPECT_NEAR(count_flops(graph) / 2, 0.556e9, 0.002e9);
}

TEST(Bench, AStepAfterTheFirstTwoAllocatesNothing) {
  const auto runner = make_step_runner("mnist-mlp", "float32");
  runner->step();
  runner->step();
  const MemoryStats before = memory_stats();
  runner->step();
  EXPECT_EQ(memory_stats().allocations, before.allocations);
  EXPECT_GT(runner->parameter_bytes, 0U);
}

TEST(Bench, AnUnknownModelOrDtypeIsRefusedByName) {
  EXPECT_THROW(make_step_runner("vgg", "float32"), NotFound);
  EXPECT_THROW(make_step_runner("mnist-mlp", "int8"), InvalidArgument);
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
}  // namespace lockstep::bench
