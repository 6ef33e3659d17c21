// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep::parallel {
namespace {

using testing::message_of;

constexpr std::size_t kFloats = 12'000'000;

// A net of 12 million parameters in equal segments, of which little crosses.
StepCosts costs_of(const MeshChoice& mesh) {
  StepCosts costs;
  costs.slots = 2;
  costs.slices = mesh.slices;
  const auto count = static_cast<double>(mesh.segments * mesh.tensor);
  for (int s = 0; s < mesh.segments; ++s)
    costs.segments.push_back({.forward_s = 0.1 / count,
                              .backward_s = 0.2 / count,
                              .update_s = 0.02 / count,
                              .gradients = {{kFloats / static_cast<std::size_t>(count), 1}},
                              .floats = kFloats / static_cast<std::size_t>(count),
                              .arena_bytes = static_cast<std::size_t>(12e6 / count),
                              .bytes_up = 100'000,
                              .bytes_down = 100'000});
  return costs;
}

PlanRequest request_of(int workers, int hosts, const LinkModel& network) {
  PlanRequest request{.shards = 16, .floats = kFloats, .slots = 2};
  request.cluster.workers = workers;
  request.cluster.hosts = hosts;
  request.cluster.network = network;
  request.meshes = {{.segments = 1}};
  for (int segments = 2; segments <= workers; segments *= 2)
    request.meshes.push_back(
        {.segments = segments,
         .cuts = std::vector<std::string>(static_cast<std::size_t>(segments) - 1),
         .is_given = false});
  return request;
}

TEST(Planner, ListsEveryPlacementOnceAndTheFastestFirst) {
  const Plan plan = make_plan(request_of(4, 1, {}), costs_of);
  ASSERT_EQ(plan.candidates.size(), 3U + 2U + 2U);  // stages of state; recomputation of 2 and 4
  for (const Candidate& one : plan.candidates) {
    EXPECT_EQ(one.placement.workers(), 4);
    EXPECT_TRUE(one.fits());
    EXPECT_GE(1.02 * one.step.seconds, plan.candidates[0].step.seconds);
    EXPECT_EQ(one.why.empty(), &one == plan.candidates.data()) << one.why;
  }
  // In memory replicas wait for nobody.
  EXPECT_EQ(plan.best(false)->placement.data, 4);
  EXPECT_EQ(plan.best(false), plan.best(true));
}

// A net of two segments in two slices, each mesh once for each number of workers that share them.
TEST(Planner, ListsPlacementsOfSlices) {
  PlanRequest request = request_of(4, 1, {});
  request.meshes.clear();
  for (const int tensor : {1, 2})
    request.meshes.push_back({.segments = 2, .cuts = {""}, .slices = 2, .tensor = tensor});
  const auto listed = [](const Plan& plan) {
    std::vector<std::array<int, 3>> found;
    for (const Candidate& one : plan.candidates) {
      EXPECT_EQ(one.placement.workers(), 4);
      EXPECT_EQ(one.placement.shard_state, 0);
      EXPECT_TRUE(one.keeps_bits);
      if (!one.placement.recompute)
        found.push_back({one.placement.data, one.placement.pipeline, one.placement.tensor});
    }
    std::ranges::sort(found);
    return found;
  };
  using All = std::vector<std::array<int, 3>>;
  EXPECT_EQ(listed(make_plan(request, costs_of)),
            (All{{1, 2, 2}, {2, 1, 2}, {2, 2, 1}, {4, 1, 1}}));
  request.tensor = 2;
  EXPECT_EQ(listed(make_plan(request, costs_of)), (All{{1, 2, 2}, {2, 1, 2}}));
  request.tensor = 3;
  EXPECT_EQ(message_of<InvalidArgument>([&] { make_plan(request, costs_of); }),
            "plan: 4 workers with 16 shards and 2 segments in 2 slices, 3 to a stage, have no "
            "placement");
}

// Neither half of the segments nor half of the slices is small enough.
TEST(Planner, UnderAMemoryLimitSegmentsAndSlicesAreShared) {
  PlanRequest request = request_of(4, 1, {});
  request.meshes.clear();
  for (const int tensor : {1, 2})
    request.meshes.push_back({.segments = 2, .cuts = {""}, .slices = 2, .tensor = tensor});
  request.memory_limit = 130'000'000;
  const Plan plan = make_plan(request, costs_of);
  ASSERT_NE(plan.best(true), nullptr);
  EXPECT_EQ(to_string(plan.best(true)->placement), "data 1 x pipeline 2 x tensor 2");
}

TEST(Planner, OverASlowLinkAPipelineIsBest) {
  const Plan plan = make_plan(request_of(2, 2, parse_link("100mbit,1ms")), costs_of);
  EXPECT_EQ(plan.best(false)->placement.pipeline, 2);
  EXPECT_FALSE(plan.best(false)->keeps_bits);
  EXPECT_EQ(plan.best(true)->placement.pipeline, 1);
  EXPECT_NE(plan.best(true)->why.find("slower: communication"), std::string::npos)
      << plan.best(true)->why;
}

TEST(Planner, UnderAMemoryLimitTheStateIsShared) {
  PlanRequest request = request_of(4, 1, {});
  const Plan free = make_plan(request, costs_of);
  const auto plain = std::find_if(free.candidates.begin(), free.candidates.end(),
                                  [](auto& one) { return one.placement == Placement{.data = 4}; });
  ASSERT_NE(plain, free.candidates.end());
  request.memory_limit = plain->bytes - 1;
  const Plan plan = make_plan(request, costs_of);
  EXPECT_TRUE(plan.best(true)->fits());
  EXPECT_GE(plan.best(true)->placement.shard_state, 1);
  EXPECT_EQ(plan.candidates.back().placement.shard_state, 0);
  EXPECT_EQ(plan.candidates.back().over, 1U);
  EXPECT_NE(plan.candidates.back().why.find("over the limit, most of it"), std::string::npos);
}

TEST(Planner, WhatCannotFitIsNotMeasured) {
  PlanRequest request = request_of(4, 1, {});
  request.memory_limit = 140'000'000;  // a whole net has 96 MB of weights and twice that of state
  std::vector<int> measured;
  const Plan plan = make_plan(request, [&](const MeshChoice& mesh) {
    measured.push_back(mesh.segments);
    return costs_of(mesh);
  });
  EXPECT_EQ(measured, (std::vector<int>{4}));
  ASSERT_NE(plan.best(false), nullptr);
  EXPECT_EQ(plan.best(false)->placement.pipeline, 4);
  EXPECT_EQ(plan.best(true), nullptr);
  for (const Candidate& one : plan.candidates)
    EXPECT_EQ(one.is_measured, one.why.find("at least") == std::string::npos) << one.why;
}

TEST(Planner, ALimitThatNothingMeetsSaysByHowMuch) {
  PlanRequest request = request_of(2, 1, {});
  request.memory_limit = 10'000'000;
  const Plan plan = make_plan(request, costs_of);
  EXPECT_EQ(plan.best(false), nullptr);
  EXPECT_EQ(refusal_of(plan, request),
            "no plan of 2 workers fits in 10.0 MB: the closest, data 1 x pipeline 2, needs at "
            "least 144 MB a worker, 134 MB too much");
}

TEST(Planner, WhatTheUserChoseStays) {
  PlanRequest request = request_of(4, 1, {});
  request.meshes = {{.segments = 4, .cuts = {"a", "b", "c"}}};
  const Plan all = make_plan(request, costs_of);
  EXPECT_EQ(all.candidates.size(), 3U + 2U + 2U);
  request.pipeline = 2;
  request.recompute = false;
  const Plan plan = make_plan(request, costs_of);
  ASSERT_EQ(plan.candidates.size(), 1U);
  EXPECT_EQ(plan.candidates[0].placement, (Placement{.data = 2, .pipeline = 2}));
  EXPECT_TRUE(plan.candidates[0].keeps_bits);
  request.pipeline = 3;
  EXPECT_EQ(message_of<InvalidArgument>([&] { make_plan(request, costs_of); }),
            "plan: 4 workers with 16 shards and 4 segments, 3 stages, have no placement");
}

}  // namespace
}  // namespace lockstep::parallel
