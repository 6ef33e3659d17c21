// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/simulator.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/step_memory.h"
#include "tests/message.h"

namespace lockstep::parallel {
namespace {

using testing::message_of;

// So many equal segments, each with one parameter.
StepCosts even_costs(int segments, std::size_t floats = 1000) {
  StepCosts costs;
  for (int s = 0; s < segments; ++s)
    costs.segments.push_back({.forward_s = 1.0,
                              .backward_s = 2.0,
                              .gradients = {{floats, 1.0}},
                              .floats = floats,
                              .bytes_up = 100,
                              .bytes_down = 100});
  return costs;
}

ClusterModel cluster_of(int workers, int hosts, const LinkModel& network = {}) {
  ClusterModel cluster{.workers = workers, .hosts = hosts, .network = network, .inside = {}};
  cluster.add_bytes_per_s = 0.0;
  return cluster;
}

double seconds_of(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                  const ClusterModel& cluster) {
  return simulate_step(write_step(costs, placement, shards, cluster), cluster).seconds;
}

TEST(Simulator, AnEvenPipelineWaitsAsLongAsTheFormulaSays) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (const int stages : {2, 4})
      for (const std::int64_t shards : {4, 16}) {
        const Placement placement{.pipeline = stages, .schedule = kind};
        const StepEstimate step =
            estimate_step(even_costs(stages), placement, shards, cluster_of(stages, 1));
        const double formula = (stages - 1.0) / (static_cast<double>(shards) + stages - 1.0);
        EXPECT_NEAR(step.bubble / step.seconds, formula, 1e-9);
        EXPECT_NEAR(step.computing, 3.0 * static_cast<double>(shards), 1e-9);
        EXPECT_EQ(step.communication, 0.0);
        EXPECT_EQ(step.bound(), "bubble");
      }
}

// Of two workers on two hosts a sum takes each link its bytes once, and two latencies a call.
TEST(Simulator, SlicesMeetInEveryPass) {
  StepCosts costs = even_costs(1, 1);
  costs.slices = 2;
  costs.segments[0].forward_slices = {.sum_bytes = 1e6, .sums = 3};
  costs.segments[0].backward_slices = {
      .sum_bytes = 1e6, .gather_bytes = 2e6, .sums = 1, .gathers = 1};
  const LinkModel network{.bytes_per_s = 1e6, .latency_s = 0.1};
  const double forward = 1.0 + 1.0 + 3 * 0.2, backward = 2.0 + 1.0 + 0.2 + 1.0 + 0.1;
  EXPECT_NEAR(seconds_of(costs, {.tensor = 2}, 4, cluster_of(2, 2, network)),
              4 * (forward + backward) + 0.1, 1e-3);
  // In memory that takes no time they cost nothing.
  EXPECT_NEAR(seconds_of(costs, {.tensor = 2}, 4, cluster_of(2, 1)), 4 * 3.0, 1e-9);
}

// Each stage's workers follow one schedule: two of them wait as one does.
TEST(Simulator, AStageOfSeveralWorkersWaitsAsOneDoes) {
  StepCosts costs = even_costs(4);
  costs.slices = 2;
  for (SegmentCost& segment : costs.segments) segment.forward_slices = {.sum_bytes = 8, .sums = 1};
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble})
    EXPECT_NEAR(
        seconds_of(costs, {.data = 2, .pipeline = 4, .tensor = 2, .schedule = kind}, 16,
                   cluster_of(16, 1)),
        seconds_of(costs, {.data = 2, .pipeline = 4, .schedule = kind}, 16, cluster_of(8, 1)),
        1e-9);
}

TEST(Simulator, WeightsGradientsFillTheBubble) {
  const auto bubble = [](ScheduleKind kind) {
    return estimate_step(even_costs(4), {.pipeline = 4, .schedule = kind}, 8, cluster_of(4, 1))
        .bubble;
  };
  EXPECT_LT(bubble(ScheduleKind::zero_bubble), 0.7 * bubble(ScheduleKind::one_f_one_b));
}

TEST(Simulator, RecomputationTakesAForwardPassMoreOfStagesThatKeepSeveralShards) {
  const Placement plain{.pipeline = 2}, again{.pipeline = 2, .recompute = true};
  const SimulatedStep step =
      simulate_step(write_step(even_costs(2), again, 8, cluster_of(2, 1)), cluster_of(2, 1));
  EXPECT_NEAR(step.busy[0], 8 * 4.0, 1e-9);
  EXPECT_NEAR(step.busy[1], 8 * 3.0, 1e-9);  // one shard under way
  EXPECT_GT(step.seconds, seconds_of(even_costs(2), plain, 8, cluster_of(2, 1)));
}

// Of one gradient after computing: nothing hides it.
double sum_seconds(comm::Algorithm algorithm, int workers, int hosts, const LinkModel& link,
                   std::int64_t shards, int shard_state = 0) {
  const Placement placement{.data = workers, .shard_state = shard_state, .algorithm = algorithm};
  StepCosts costs = even_costs(1, 1'000'000);
  const ClusterModel cluster = cluster_of(workers, hosts, link);
  return seconds_of(costs, placement, shards, cluster) -
         seconds_of(costs, placement, shards, cluster.without_network());
}

TEST(Simulator, SumsTakeWhatTheirAlgorithmsFormulasSay) {
  constexpr double kBytes = 4e6, kRate = 1e6;
  const LinkModel link{.bytes_per_s = kRate};
  const auto votes = [&](int n) {  // the vote's 64 bytes, from each to each
    return 64.0 * (n - 1) / kRate;
  };
  for (const int n : {2, 4, 8}) {
    const double expected = 2.0 * (n - 1) / n * kBytes / kRate + votes(n);
    EXPECT_NEAR(sum_seconds(comm::Algorithm::ring, n, n, link, n), expected, 1e-6);
    EXPECT_NEAR(sum_seconds(comm::Algorithm::tree, n, n, link, n), expected, 1e-6);
    EXPECT_NEAR(sum_seconds(comm::Algorithm::central, n, n, link, n),
                2.0 * 0.0 + (n - 1) * kBytes / kRate + votes(n), 1e-6);
    // A scatter and a gather are an all-reduce's bytes.
    EXPECT_NEAR(sum_seconds(comm::Algorithm::tree, n, n, link, n, 2), expected, 1e-6);
  }
  // Five shards of two workers: three are two subtrees, which both travel.
  EXPECT_NEAR(sum_seconds(comm::Algorithm::tree, 2, 2, link, 5),
              (0.5 * 2 + 0.5) * kBytes / kRate + votes(2), 1e-6);
  // Stage 1 has a transfer of the weights more.
  EXPECT_NEAR(sum_seconds(comm::Algorithm::tree, 2, 2, link, 2, 1), 1.5 * kBytes / kRate + votes(2),
              1e-6);
}

TEST(Simulator, AHostsLinkIsSharedByItsWorkers) {
  constexpr double kBytes = 4e6, kRate = 1e6;
  const LinkModel link{.bytes_per_s = kRate};
  // Of each of the host's four slices half of all nodes come in, and its sums go out.
  EXPECT_NEAR(sum_seconds(comm::Algorithm::tree, 4, 2, link, 4),
              2.0 * kBytes / kRate + 4 * 64.0 / kRate, 1e-6);
  // Once inside, each byte crosses once each way.
  EXPECT_NEAR(sum_seconds(comm::Algorithm::hierarchical, 4, 2, link, 4),
              1.0 * kBytes / kRate + 4 * 64.0 / kRate, 1e-6);
}

TEST(Simulator, LatencyIsPaidForEachHop) {
  const LinkModel link{.bytes_per_s = 1e12, .latency_s = 1.0};
  EXPECT_NEAR(sum_seconds(comm::Algorithm::tree, 4, 4, link, 4), 2.0 + 1.0, 1e-3);  // and the vote
  EXPECT_NEAR(sum_seconds(comm::Algorithm::ring, 4, 4, link, 4), 6.0 + 1.0, 1e-3);
}

TEST(Simulator, BucketsTravelBehindTheBackwardPass) {
  StepCosts costs = even_costs(1);
  costs.segments[0].backward_s = 8.0;
  costs.segments[0].gradients = {{250'000, 0.25}, {250'000, 0.5}, {250'000, 0.75}, {250'000, 1.0}};
  costs.segments[0].floats = 1'000'000;
  costs.bucket_bytes = 1'000'000;
  const Placement placement{.data = 2};
  // A bucket of 1 MB takes a second each way of half of it: all but the last are hidden.
  const ClusterModel cluster = cluster_of(2, 2, {.bytes_per_s = 1e6});
  EXPECT_NEAR(seconds_of(costs, placement, 2, cluster), 9.0 + 1.0, 1e-3);
  // With two shards each, the first bucket is there after two forward passes and a quarter of both
  // backward passes.
  EXPECT_NEAR(seconds_of(costs, placement, 4, cluster), 18.0 + 1.0, 1e-3);
  // A slow link is busy from the first bucket on.
  EXPECT_NEAR(seconds_of(costs, placement, 2, cluster_of(2, 2, {.bytes_per_s = 1e5})),
              1.0 + 2.0 + 40.0, 1e-2);
}

TEST(Simulator, WhatTheExchangeComputesTheOtherThreadWaitsFor) {
  StepCosts costs = even_costs(1);
  costs.segments[0].gradients = {{500'000, 0.5}, {500'000, 1.0}};
  costs.segments[0].floats = 1'000'000;
  costs.segments[0].update_s = 0.8;
  costs.bucket_bytes = 1'000'000;
  ClusterModel cluster = cluster_of(2, 2, {.bytes_per_s = 1e12});
  const Placement placement{.data = 2};
  EXPECT_NEAR(seconds_of(costs, placement, 2, cluster), 3.0 + 0.8, 1e-3);
  cluster.has_spare_cores = true;
  EXPECT_NEAR(seconds_of(costs, placement, 2, cluster), 3.0 + 0.4, 1e-3);
}

TEST(Simulator, APipelinesTransfersTakeTheLinkAndArriveLater) {
  const Placement placement{.pipeline = 2};
  const ClusterModel cluster = cluster_of(2, 2, {.bytes_per_s = 1e3, .latency_s = 0.2});
  // One shard: forward, transfer, forward and backward, transfer, backward.
  EXPECT_NEAR(seconds_of(even_costs(2), placement, 1, cluster),
              1.0 + 0.3 + 3.0 + 0.3 + 2.0 + (0.2 + 0.064), 1e-6);
}

TEST(Simulator, OwnersUpdateTheirPart) {
  StepCosts costs = even_costs(1);
  costs.segments[0].update_s = 4.0;
  const ClusterModel cluster = cluster_of(4, 1);
  for (const bool local : {true, false}) {
    costs.rule_is_local = local;
    EXPECT_NEAR(seconds_of(costs, {.data = 4}, 4, cluster), 3.0 + 4.0, 1e-9);
    EXPECT_NEAR(seconds_of(costs, {.data = 4, .shard_state = 1}, 4, cluster), 3.0 + 1.0, 1e-9);
  }
}

TEST(Simulator, StragglersAreDrawnFromTheSeedAndCostMoreWithMoreWorkers) {
  const auto estimate = [](int workers, double jitter, std::uint64_t seed) {
    return estimate_step(even_costs(1), {.data = workers}, workers, cluster_of(workers, 1),
                         {.jitter = jitter, .draws = 40, .seed = seed});
  };
  const StepEstimate calm = estimate(8, 0.0, 1), some = estimate(8, 0.05, 1);
  EXPECT_EQ(calm.stragglers, 0.0);
  EXPECT_EQ(calm.p10, calm.p90);
  EXPECT_GT(some.stragglers, 0.0);
  EXPECT_LT(some.p10, some.seconds);
  EXPECT_LT(some.seconds, some.p90);
  EXPECT_EQ(some.seconds, estimate(8, 0.05, 1).seconds);
  EXPECT_NE(some.seconds, estimate(8, 0.05, 2).seconds);
  EXPECT_GT(estimate(64, 0.05, 1).stragglers, some.stragglers);
  EXPECT_NEAR(some.seconds, some.computing + some.bubble + some.communication + some.stragglers,
              1e-9);
}

TEST(Simulator, AThousandWorkersAreNoTrouble) {
  const ClusterModel cluster = cluster_of(1024, 128, parse_link("25gbit,10us"));
  StepCosts costs = even_costs(4, 10'000'000);
  const StepEstimate step = estimate_step(costs, {.data = 256, .pipeline = 4}, 1024, cluster,
                                          {.jitter = 0.03, .draws = 3});
  EXPECT_GT(step.efficiency(), 0.1);
  EXPECT_LT(step.efficiency(), 1.0);
  EXPECT_GT(step.communication, 0.0);
}

TEST(Simulator, PlacementsThatDoNotFitAreRefused) {
  const auto refused = [](const Placement& placement, const ClusterModel& cluster) {
    return message_of<InvalidArgument>([&] { write_step(even_costs(2), placement, 2, cluster); });
  };
  EXPECT_EQ(refused({.data = 2}, cluster_of(3, 1)),
            "simulate: data 2 x pipeline 1 has 2 workers; the cluster has 3 on 1 hosts");
  EXPECT_EQ(refused({.data = 4}, cluster_of(4, 1)),
            "simulate: data 4 x pipeline 1 with 2 shards: each replica computes at least one");
  EXPECT_EQ(refused({.tensor = 3}, cluster_of(3, 1)),
            "simulate: data 1 x pipeline 1 x tensor 3 with 1 slices: each worker has at least one");
  EXPECT_EQ(refused({.pipeline = 3}, cluster_of(3, 1)),
            "simulate: data 1 x pipeline 3 with 2 segments: each stage has at least one");
}

TEST(Simulator, TasksThatWaitForEverAreRefused) {
  StepTasks step{.workers = {{.computing = {{.kind = Task::Kind::receive, .id = 7}}}}};
  EXPECT_EQ(message_of<InvalidArgument>([&] { simulate_step(step, cluster_of(1, 1)); }),
            "simulate: worker 0 would wait for ever at its task 0");
}

TEST(Simulator, AStepHasAPictureAndAPage) {
  const ClusterModel cluster = cluster_of(2, 1);
  const SimulatedStep step = simulate_step(write_step(even_costs(2), {.pipeline = 2}, 3, cluster),
                                           cluster, {.slowness = {}, .keeps_spans = true});
  const std::string svg = step_svg(step);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_NE(svg.find("worker 1"), std::string::npos);
  EXPECT_NE(svg.find("backward of shard 2, 2000.000 ms"), std::string::npos);
  EXPECT_EQ(step_svg(step, 1).find("worker 1"), std::string::npos);
  const std::string page =
      step_page("a <step>", estimate_step(even_costs(2), {.pipeline = 2}, 3, cluster), step);
  EXPECT_NE(page.find("What bounds it: bubble"), std::string::npos);
  EXPECT_NE(page.find(svg), std::string::npos);
}

TEST(Links, AreReadAsTheyAreWritten) {
  const LinkModel link = parse_link("25gbit,10us");
  EXPECT_NEAR(link.bytes_per_s, 25e9 / 8, 0.07 * 25e9 / 8);
  EXPECT_DOUBLE_EQ(link.latency_s, 10e-6);
  EXPECT_DOUBLE_EQ(parse_link("300MB,1ms").bytes_per_s, 3e8);
  EXPECT_EQ(parse_link("1gbit").latency_s, 0.0);
  for (const char* bad : {"", "fast", "0gbit", "-1gbit", "1gbit,", "1gbit,5", "1gbit,-1us",
                          "1 gbit", "infgbit", "nangbit,1us"})
    EXPECT_EQ(message_of<InvalidArgument>([&] { parse_link(bad); }),
              fmt::format("links '{}': expected a rate and a latency, such as 25gbit,10us", bad));
}

}  // namespace
}  // namespace lockstep::parallel
