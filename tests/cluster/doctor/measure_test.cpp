// SPDX-License-Identifier: Apache-2.0
// What doctor measures: the plan, the rate of a stream, and both over links of a known rate.
#include "lockstep/cluster/doctor/detail/measure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/base/network_pair.h"
#include "lockstep/cluster/doctor/detail/throughput_meter.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "tests/cluster/child.h"
#include "tests/comm/worlds.h"

namespace lockstep::cluster {
namespace {

using detail::MeasurePlan;
using detail::MeasureRound;
using detail::RankPair;
using lockstep::testing::Child;
using Hosts = std::vector<std::vector<int>>;

// Ranks dealt host by host.
Hosts make_hosts(int hosts, int ranks) {
  Hosts result;
  for (int host = 0; host < hosts; ++host) {
    result.emplace_back(static_cast<std::size_t>(ranks));
    std::iota(result.back().begin(), result.back().end(), host * ranks);
  }
  return result;
}

bool is_inside(const RankPair& pair, int ranks) {
  return pair.first / ranks == pair.second / ranks;
}

// No link is used by two pairs at a time, and no rank is asked for twice.
void check_rounds(const std::vector<MeasureRound>& rounds, int ranks) {
  for (const MeasureRound& round : rounds) {
    std::set<int> hosts, members;
    for (const RankPair& pair : round.pairs) {
      EXPECT_LT(pair.first, pair.second);
      EXPECT_TRUE(members.insert(pair.first).second && members.insert(pair.second).second);
      if (is_inside(pair, ranks)) continue;
      EXPECT_TRUE(hosts.insert(pair.first / ranks).second &&
                  hosts.insert(pair.second / ranks).second);
    }
  }
}

// How many others each host has met, where rates were measured or where any word went.
std::vector<std::size_t> partners(const MeasurePlan& plan, int hosts, int ranks, bool rated) {
  std::vector<std::set<int>> met(static_cast<std::size_t>(hosts));
  for (const MeasureRound& round : plan.rounds)
    for (const RankPair& pair : round.pairs) {
      if (is_inside(pair, ranks) || (rated && round.stream_seconds <= 0)) continue;
      met[static_cast<std::size_t>(pair.first / ranks)].insert(pair.second / ranks);
      met[static_cast<std::size_t>(pair.second / ranks)].insert(pair.first / ranks);
    }
  std::vector<std::size_t> counts;
  for (const auto& one : met) counts.push_back(one.size());
  return counts;
}

TEST(MeasurePlan, IsShortForAnyNumberOfHostsAndLeavesNoneOut) {
  for (const int hosts : {2, 3, 4, 7, 24, 63, 64, 100, 500})
    for (const int ranks : {1, 2, 8, 64}) {
      const MeasurePlan plan = detail::plan_measurement(make_hosts(hosts, ranks));
      EXPECT_LT(plan.seconds(), 30) << hosts << " hosts of " << ranks;
      check_rounds(plan.rounds, ranks);
      for (const std::size_t count : partners(plan, hosts, ranks, true))
        EXPECT_GE(count, std::min(static_cast<std::size_t>(hosts) - 1, std::size_t{20}))
            << hosts << " hosts of " << ranks;
    }
}

TEST(MeasurePlan, HasAllPairsOfHostsWhileThereIsTime) {
  for (const int hosts : {2, 3, 5, 8, 24})
    for (const std::size_t count :
         partners(detail::plan_measurement(make_hosts(hosts, 4)), hosts, 4, true))
      EXPECT_EQ(count, static_cast<std::size_t>(hosts) - 1);
  for (const std::size_t count :
       partners(detail::plan_measurement(make_hosts(64, 1)), 64, 1, false))
    EXPECT_EQ(count, 63u) << "a word goes between all";
}

TEST(MeasurePlan, HasAllPairsOfRanksOfASmallJob) {
  std::set<std::pair<int, int>> pairs;
  for (const MeasureRound& round : detail::plan_measurement({{0, 1}, {2}, {3, 4}}).rounds)
    for (const RankPair& pair : round.pairs) pairs.insert({pair.first, pair.second});
  EXPECT_EQ(pairs.size(), 10u);
  EXPECT_TRUE(detail::plan_measurement({{0}}).rounds.empty());
}

TEST(MeasurePlan, MeasuresOnceMoreWhatIsSlowerThanTheOthers) {
  const Hosts hosts = make_hosts(6, 1);
  const MeasurePlan plan = detail::plan_measurement(hosts);
  std::vector<Link> links;
  for (int from = 0; from < 6; ++from)
    for (int to = from + 1; to < 6; ++to)
      links.push_back({from, to, 1e-4, 1e8, from == 2 || to == 2 ? 2e7 : 1e8});
  const std::vector<MeasureRound> again = detail::plan_again(plan, links, hosts);
  check_rounds(again, 1);
  EXPECT_EQ(again.size(), 3u) << "three links of a slow host, not all";
  for (const MeasureRound& round : again)
    for (const RankPair& pair : round.pairs) EXPECT_TRUE(pair.first == 2 || pair.second == 2);
  for (Link& link : links) link.back = 1e8;
  EXPECT_TRUE(detail::plan_again(plan, links, hosts).empty());
}

// `bytes` in pieces of 4 KB: `burst` of them at once, the rest at `rate`.
detail::ThroughputMeter stream_of(double rate, double burst, double seconds) {
  detail::ThroughputMeter meter;
  for (double bytes = 0; bytes < burst; bytes += 4096) meter.add(1e-6 * bytes / 4096, 4096);
  for (double now = 0.001; now < seconds; now += 4096 / rate) meter.add(now, 4096);
  return meter;
}

TEST(ThroughputMeter, TheBurstBeforeTheRateDoesNotCount) {
  for (const double rate : {1.25e6, 12.5e6, 125e6})
    EXPECT_NEAR(stream_of(rate, 2 << 20, 0.33).sustained_rate() / rate, 1, 0.02);
  EXPECT_GT(stream_of(1.25e6, 2 << 20, 0.33).highest_rate(), 20e6);
}

TEST(ThroughputMeter, WhatComesLaterThanItShouldCounts) {
  detail::ThroughputMeter meter;
  for (int ms = 1; ms <= 400; ++ms) {
    if (ms >= 250 && ms < 300) continue;                 // nothing comes,
    meter.add(ms * 1e-3, ms == 300 ? 510'000 : 10'000);  // and then all of it
  }
  EXPECT_NEAR(meter.sustained_rate() / 1e7, 1, 0.02);
}

TEST(ThroughputMeter, BytesThatWaitForALostPacketAreNotMissing) {
  detail::ThroughputMeter meter;
  for (int ms = 100; ms <= 400; ms += 100) meter.add(ms * 1e-3, 1'000'000);
  EXPECT_NEAR(meter.sustained_rate() / 1e7, 1, 0.02);
  detail::ThroughputMeter uneven;
  for (int ms = 1; ms <= 400; ++ms)
    if (ms % 80 == 0) uneven.add(ms * 1e-3 - 5e-4, 1), uneven.add(ms * 1e-3, 800'000);
  EXPECT_NEAR(uneven.sustained_rate() / 1e7, 1, 0.1);
}

TEST(ThroughputMeter, TimeInWhichTheMachineIsBusyElsewhereDoesNotCount) {
  detail::ThroughputMeter meter;
  for (int ms = 1; ms <= 400; ++ms)
    if (ms < 260 || ms >= 300) meter.add(ms * 1e-3, 10'000);
  EXPECT_NEAR(meter.sustained_rate() / 1e7, 1, 0.02);
}

TEST(ThroughputMeter, OfNothingHaveNoRate) {
  EXPECT_EQ(detail::ThroughputMeter().sustained_rate(), 0);
  EXPECT_EQ(detail::ThroughputMeter().highest_rate(), 0);
  EXPECT_EQ(detail::ThroughputMeter().latest_rate(8), 0);
}

// The plan for many hosts is carried out by as many threads, with streams that are over at once.
TEST(MeasureLinks, SixtyFourHostsMeetAsPlanned) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 64; ++i) hosts.push_back(fmt::format("h{}", i));
  const comm::WorldKind kind{"64 hosts", false,
                             [&](int) { return comm::make_in_process_world(hosts); }};
  comm::run_ranks(kind, 64, [&](comm::Communicator& group) {
    MeasurePlan plan = detail::plan_measurement(group.topology());
    for (MeasureRound& round : plan.rounds)
      round.stream_seconds = std::min(round.stream_seconds, 1e-6);
    plan.again_seconds = 1e-6;
    plan.most_seconds = 600;  // a busy machine takes its time
    const std::vector<Link> links = detail::measure_links(group, plan);
    ASSERT_EQ(links.size(), 64u * 63 / 2);
    std::vector<int> rated(64);
    for (const Link& link : links) {
      EXPECT_GT(link.latency, 0);
      EXPECT_EQ(link.bandwidth > 0, link.back > 0);
      if (link.has_rate())
        ++rated[static_cast<std::size_t>(link.from)], ++rated[static_cast<std::size_t>(link.to)];
    }
    for (const int count : rated) EXPECT_GE(count, 20);
  });
}

TEST(MeasureLinks, NoStreamBeginsAfterTheTimeIsOver) {
  const comm::WorldKind kind{"3 hosts", false, [](int) {
                               return comm::make_in_process_world({"a", "b", "c"});
                             }};
  comm::run_ranks(kind, 3, [](comm::Communicator& group) {
    MeasurePlan plan = detail::plan_measurement(group.topology());
    EXPECT_LT(plan.most_seconds, 20);
    plan.most_seconds = 0;
    for (const Link& link : detail::measure_links(group, plan)) {
      EXPECT_GT(link.latency, 0);
      EXPECT_FALSE(link.has_rate());
    }
  });
}

// Two hosts in network namespaces, each with one rank.
class ShapedLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = NetworkPair::why_not();
    if (!reason.empty()) GTEST_SKIP() << reason;
    pair_ = std::make_unique<NetworkPair>();
  }

  // What rank 0 sees: bytes a second, there and back.
  std::pair<double, double> measure() {
    std::vector<Child> ranks;
    const std::string secret = make_secret();
    for (int rank : {0, 1})
      ranks.emplace_back([&, rank] {
        NetworkPair::enter(pair_->path(rank));
        std::jthread coordinating;
        if (rank == 0) coordinating = std::jthread([&] { coordinate(secret); });
        return examine_as(rank, secret);
      });
    std::istringstream text(ranks[0].result(std::chrono::seconds(60)));
    double there = 0, back = 0;
    text >> there >> back;
    EXPECT_GT(there * back, 0) << text.str();
    return {there, back};
  }

  // A machine that has other things to do may have no time for the test now and then.
  void expect_rates(double there, double back) {
    const auto is_near = [](double rate, double megabits) {
      return std::abs(rate * 8e-6 / megabits - 1) < 0.1;
    };
    auto [first, second] = measure();
    for (int again = 0; again < 8 && !(is_near(first, there) && is_near(second, back)); ++again)
      std::tie(first, second) = measure();
    EXPECT_NEAR(first * 8e-6, there, 0.1 * there);
    EXPECT_NEAR(second * 8e-6, back, 0.1 * back);
  }

  std::unique_ptr<NetworkPair> pair_;

 private:
  static comm::Endpoint meeting_place() { return {NetworkPair::address(0), 7079}; }

  static void coordinate(const std::string& secret) {
    CoordinatorOptions options;
    options.listen = meeting_place();
    options.secret = secret;
    options.workers = 2;
    Coordinator(options).run();
  }

  static std::string examine_as(int rank, const std::string& secret) {
    Place place;
    place.rank = rank;
    place.workers = 2;
    place.coordinator = meeting_place();
    place.secret = secret;
    place.host = rank == 0 ? "a" : "b";
    const Examination seen = examine(place, {});
    if (seen.links.size() != 1) return "no link: " + seen.broken;
    return fmt::format("{} {}", seen.links[0].bandwidth, seen.links[0].back);
  }
};

TEST_F(ShapedLinks, AreMeasuredWithinATenthAtAnyRate) {
  for (const int megabits : {10, 100, 1000}) {
    pair_->shape(fmt::format("{}mbit", megabits));
    expect_rates(megabits, megabits);
  }
}

TEST_F(ShapedLinks, AreMeasuredWithinATenthBehindALargeBurst) {
  pair_->shape(0, "100mbit", "2mb");
  pair_->shape(1, "100mbit", "32kb");
  expect_rates(100, 100);
}

// A bucket that is full after a millisecond or less would lose what a busy machine leaves unused.
TEST_F(ShapedLinks, ThatAreAsymmetricAreMeasuredBothWays) {
  pair_->shape(0, "500mbit", "512kb");
  pair_->shape(1, "10mbit", "64kb");
  expect_rates(500, 10);
  pair_->shape(0, "20mbit", "256kb");
  pair_->shape(1, "500mbit", "512kb");
  expect_rates(20, 500);
}

}  // namespace
}  // namespace lockstep::cluster
