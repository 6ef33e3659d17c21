// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using Indices = std::vector<std::int64_t>;

Indices sorted(Indices values) {
  std::sort(values.begin(), values.end());
  return values;
}

Indices indices_below(std::int64_t size) {
  Indices values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(i);
  return values;
}

TEST(Sampler, SequentialIsTheSameInEveryEpoch) {
  const SamplerPtr sampler = sequential_sampler(5);
  EXPECT_EQ(sampler->size(), 5);
  EXPECT_EQ(sampler->epoch(0), indices_below(5));
  EXPECT_EQ(sampler->epoch(7), indices_below(5));
}

TEST(Sampler, RandomGivesEverySampleOnceAnEpoch) {
  for (std::int64_t size : {0, 1, 2, 3, 100, 1001})
    for (std::int64_t epoch : {0, 1, 9})
      EXPECT_EQ(sorted(random_sampler(size, 3)->epoch(epoch)), indices_below(size));
}

TEST(Sampler, RandomIsAFunctionOfSeedAndEpoch) {
  const Indices order = random_sampler(100, 3)->epoch(4);
  EXPECT_EQ(order, random_sampler(100, 3)->epoch(4));
  EXPECT_NE(order, random_sampler(100, 3)->epoch(5));
  EXPECT_NE(order, random_sampler(100, 4)->epoch(4));
}

TEST(Sampler, RandomReachesEveryOrderOfThreeAboutAsOften) {
  std::map<Indices, int> seen;
  const SamplerPtr sampler = random_sampler(3, 11);
  for (std::int64_t epoch = 0; epoch < 6000; ++epoch) ++seen[sampler->epoch(epoch)];
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

// The order is part of a run's result: a change of the method changes every run's bits.
TEST(Sampler, RandomOrderOfSeed0IsPinned) {
  const Indices order = random_sampler(8, 0)->epoch(0);
  EXPECT_EQ(order, (Indices{5, 6, 1, 7, 3, 2, 0, 4}));
}

TEST(Sampler, WeightedDrawsInProportionAndNeverWeight0) {
  const Indices draws = weighted_sampler({1, 0, 3, 0}, 40000, 5)->epoch(2);
  ASSERT_EQ(draws.size(), 40000u);
  EXPECT_NEAR(std::count(draws.begin(), draws.end(), 0), 10000, 400);
  EXPECT_NEAR(std::count(draws.begin(), draws.end(), 2), 30000, 400);
  EXPECT_NE(draws, weighted_sampler({1, 0, 3, 0}, 40000, 5)->epoch(3));
  EXPECT_EQ(draws, weighted_sampler({1, 0, 3, 0}, 40000, 5)->epoch(2));
}

TEST(Sampler, RefusesBadWeightsAndSizes) {
  EXPECT_EQ(message_of([] {
              weighted_sampler({1, -1}, 3, 0);
            }),
            "weighted_sampler: weight 1 is -1, expected a finite one from 0");
  EXPECT_EQ(message_of([] {
              weighted_sampler({0, 0}, 3, 0);
            }),
            "weighted_sampler: the weights' sum is 0, expected above 0");
  EXPECT_EQ(message_of([] { weighted_sampler({}, 3, 0); }),
            "weighted_sampler: the weights' sum is 0, expected above 0");
  EXPECT_EQ(message_of([] { random_sampler(-1, 0); }),
            "sampler: size is -1, expected 0 to 4294967296");
}

TEST(ShardSampler, ShardsOfAnEpochAreDisjointAndInTheOrderOfTheSampler) {
  const SamplerPtr sampler = random_sampler(50, 1);
  ShardSampler shards(sampler, 12, 3);
  EXPECT_EQ(shards.steps_per_epoch(), 4);
  for (std::int64_t epoch : {0, 1}) {
    Indices dealt;
    for (std::int64_t step = 4 * epoch; step < 4 * epoch + 4; ++step)
      for (std::int64_t shard = 0; shard < 3; ++shard)
        for (std::int64_t index : shards.samples(step, shard)) dealt.push_back(index);
    Indices order = sampler->epoch(epoch);
    order.resize(48);
    EXPECT_EQ(dealt, order);
  }
}

TEST(ShardSampler, AnyStepCanBeAskedForInAnyOrder) {
  ShardSampler shards(random_sampler(50, 1), 12, 3);
  const Indices late = shards.samples(9, 2), early = shards.samples(0, 1);
  EXPECT_EQ(shards.samples(9, 2), late);
  EXPECT_EQ(shards.samples(0, 1), early);
}

TEST(ShardSampler, TheNumberOfShardsDoesNotChangeTheGlobalBatch) {
  ShardSampler one(random_sampler(64, 1), 16, 1), four(random_sampler(64, 1), 16, 4);
  Indices joined;
  for (std::int64_t shard = 0; shard < 4; ++shard)
    for (std::int64_t index : four.samples(5, shard)) joined.push_back(index);
  EXPECT_EQ(joined, one.samples(5, 0));
}

TEST(ShardSampler, RefusesWhatCannotBeDealt) {
  const SamplerPtr sampler = sequential_sampler(1000);
  EXPECT_EQ(message_of([&] { ShardSampler(sampler, 100, 8); }),
            "train: a global batch of 100 cannot be dealt into 8 shards");
  EXPECT_EQ(message_of([&] { ShardSampler(sampler, 0, 1); }),
            "train: a global batch of 0 cannot be dealt into 1 shards");
  EXPECT_EQ(message_of([&] { ShardSampler(sampler, 2000, 8); }),
            "train: the set has 1000 samples, a global batch needs 2000");
  EXPECT_EQ(message_of([&] { ShardSampler(sampler, 10, 2).samples(-1, 0); }),
            "sampler: step is -1, expected 0 or more");
  EXPECT_EQ(message_of([&] { ShardSampler(sampler, 10, 2).samples(0, 2); }),
            "sampler: shard is 2, expected 0 to 1");
}

}  // namespace
}  // namespace lockstep::data
