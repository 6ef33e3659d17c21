// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/measure_step.h"

#include <gtest/gtest.h>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/parallel/step_memory.h"
#include "lockstep/train/step_engine.h"
#include "tests/kvstore/as_ranks.h"

namespace lockstep::train {
namespace {

using parallel::Placement;

constexpr std::int64_t kMeasuredWidth = 160, kMeasuredRows = 3;

nn::BlockPtr wide_net() {
  const auto layer = [] {
    return nn::dense(kMeasuredWidth, {.inputs = kMeasuredWidth, .activation = "relu"});
  };
  const auto net = nn::sequential(layer(), nn::batch_norm(), layer(), layer(), layer());
  net->initialize();
  return net;
}

data::Fields one_batch() {
  return {Tensor::full({kMeasuredRows, kMeasuredWidth}, 0.5),
          Tensor::zeros({kMeasuredRows}, DType::int64)};
}

parallel::StepCosts costs_of(const optim::OptimizerPtr& rule, const std::vector<std::string>& cuts,
                             std::int64_t shards, int rounds = 0, int slices = 1, int tensor = 1) {
  return measure_step(
      wide_net(), nn::SoftmaxCrossEntropyLoss(), rule, one_batch(),
      {.cuts = cuts, .slices = slices, .tensor = tensor, .shards = shards, .rounds = rounds});
}

// Of each rank, what the engine plans for a step, and what the formula says.
void expect_formula(const Placement& placement, const std::vector<std::string>& cuts,
                    std::int64_t shards, const optim::OptimizerPtr& rule, bool one_host,
                    int slices = 1) {
  const parallel::StepCosts costs = costs_of(rule, cuts, shards, 0, slices, placement.tensor);
  std::vector<std::string> hosts;
  std::vector<int> numbers;
  for (int rank = 0; rank < placement.workers(); ++rank) {
    numbers.push_back(one_host ? 0 : rank);
    hosts.push_back(std::to_string(numbers.back()));
  }
  const auto planned = [&](kvstore::Mode* mode, int rank) {
    const StepEngine engine(wide_net(), nn::SoftmaxCrossEntropyLoss(), rule,
                            data::infos_of(one_batch()),
                            {.shards = shards,
                             .threads = placement.threads,
                             .mode = mode,
                             .cuts = cuts,
                             .slices = slices,
                             .schedule = placement.schedule,
                             .recompute = placement.recompute});
    const auto formula =
        static_cast<double>(parallel::memory_of(costs, placement, shards, numbers, rank).bytes());
    const auto bytes = static_cast<double>(engine.step_bytes());
    EXPECT_NEAR(formula, bytes, 0.02 * bytes)
        << to_string(placement) << ", rank " << rank << ", " << shards << " shards, "
        << rule->name() << (one_host ? ", one host" : ", hosts");
  };
  if (placement.workers() == 1) return planned(nullptr, 0);
  testing::as_ranks(hosts, [&](comm::Communicator& communicator) {
    const kvstore::AllReduceOptions options{.shard_state =
                                                kvstore::parse_shard_state(placement.shard_state)};
    std::unique_ptr<kvstore::Mode> mode;
    if (placement.pipeline * placement.tensor > 1)
      mode =
          kvstore::mesh_mode(communicator, cluster::workers_of(communicator),
                             {.stages = placement.pipeline, .tensor = placement.tensor}, options);
    else
      mode = kvstore::allreduce_mode(communicator, options);
    planned(mode.get(), communicator.rank());
  });
}

TEST(MeasureStep, MemoryOfReplicasIsWhatTheEnginePlans) {
  const optim::OptimizerPtr local = optim::adam({}), clips = optim::sgd({.clip_norm = 1.0});
  for (const bool one_host : {true, false})
    for (const optim::OptimizerPtr& rule : {local, clips})
      for (const int workers : {1, 2, 3})
        for (const int stage : {0, 1, 2}) {
          if (workers == 1 && stage > 0) continue;
          expect_formula({.data = workers, .threads = 1 + workers % 2, .shard_state = stage}, {}, 8,
                         rule, one_host);
        }
  expect_formula({.data = 2}, {"2"}, 5, local, false);
}

TEST(MeasureStep, MemoryOfPipelinesIsWhatTheEnginePlans) {
  using parallel::ScheduleKind;
  const optim::OptimizerPtr rule = optim::adam({});
  for (const bool one_host : {true, false}) {
    expect_formula({.pipeline = 2}, {"2"}, 8, rule, one_host);
    expect_formula({.pipeline = 2, .recompute = true}, {"2"}, 8, rule, one_host);
    expect_formula({.pipeline = 2, .schedule = ScheduleKind::gpipe}, {"2"}, 4, rule, one_host);
    expect_formula({.data = 2, .pipeline = 2}, {"2", "3"}, 8, rule, one_host);
  }
}

TEST(MeasureStep, MemoryOfSlicesIsWhatTheEnginePlans) {
  using parallel::ScheduleKind;
  const optim::OptimizerPtr rule = optim::adam({}), clips = optim::sgd({.clip_norm = 1.0});
  for (const bool one_host : {true, false}) {
    expect_formula({}, {}, 4, rule, one_host, 2);
    expect_formula({.tensor = 2, .threads = 2}, {}, 8, rule, one_host, 2);
    expect_formula({.data = 2, .tensor = 2}, {}, 8, clips, one_host, 2);
    expect_formula({.pipeline = 2}, {"2"}, 8, rule, one_host, 2);
    expect_formula({.pipeline = 2, .tensor = 2}, {"2", "3"}, 8, rule, one_host, 2);
    expect_formula({.data = 2, .pipeline = 2, .tensor = 2, .recompute = true}, {"3"}, 8, clips,
                   one_host, 4);
    expect_formula({.tensor = 2, .schedule = ScheduleKind::gpipe}, {"2"}, 4, rule, one_host, 2);
  }
}

// Two pairs of layers: a sum after each, forward and backward; who has all slices sends nothing.
TEST(MeasureStep, CountsWhatSlicesBringTogether) {
  for (const std::vector<std::string>& cuts : {std::vector<std::string>(), {"3"}}) {
    const parallel::StepCosts shared = costs_of(optim::adam({}), cuts, 4, 1, 2, 2);
    const parallel::StepCosts whole = costs_of(optim::adam({}), cuts, 4, 1, 2, 1);
    EXPECT_EQ(shared.slices, 2);
    double sums = 0.0, bytes = 0.0;
    std::size_t floats = 0;
    for (const parallel::SegmentCost& segment : shared.segments) {
      sums += segment.forward_slices.sums + segment.backward_slices.sums;
      bytes += segment.forward_slices.sum_bytes + segment.backward_slices.sum_bytes;
      floats += segment.floats;
    }
    EXPECT_GE(sums, 3.0);
    EXPECT_GE(bytes, 3.0 * static_cast<double>(kMeasuredRows * kMeasuredWidth * sizeof(float)));
    EXPECT_LT(static_cast<double>(floats), 0.6 * static_cast<double>(whole.floats()));
    for (const parallel::SegmentCost& segment : whole.segments)
      EXPECT_EQ(segment.forward_slices.sums + segment.backward_slices.sums, 0);
  }
}

TEST(MeasureStep, TimesEveryPassAndKnowsWhenGradientsAreMade) {
  const parallel::StepCosts costs = costs_of(optim::adam({}), {"2", "3"}, 4, 2);
  ASSERT_EQ(costs.segments.size(), 3U);
  EXPECT_EQ(costs.slots, 2);
  EXPECT_TRUE(costs.rule_is_local);
  EXPECT_EQ(costs.segments[1].begins_with, "2");
  for (std::size_t s = 0; s < costs.segments.size(); ++s) {
    const parallel::SegmentCost& segment = costs.segments[s];
    EXPECT_GT(segment.forward_s, 0.0);
    EXPECT_GT(segment.backward_s, 0.0);
    EXPECT_GT(segment.update_s, 0.0);
    double before = 0.0;
    std::size_t floats = 0;
    for (const parallel::GradientCost& gradient : segment.gradients) {
      EXPECT_GE(gradient.at, before);
      EXPECT_LE(gradient.at, 1.0);
      before = gradient.at;
      floats += gradient.floats;
    }
    EXPECT_LE(floats, segment.floats);
    EXPECT_GE(floats, static_cast<std::size_t>(kMeasuredWidth * kMeasuredWidth));
    EXPECT_EQ(segment.bytes_up, s < 2 ? kMeasuredRows * kMeasuredWidth * sizeof(float) : 0U);
  }
  EXPECT_GT(costs_of(optim::adam({.clip_norm = 1.0}), {}, 4, 1).shard_seconds(), 0.0);
}

}  // namespace
}  // namespace lockstep::train
