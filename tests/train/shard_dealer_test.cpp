// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/shard_dealer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::train::detail {
namespace {

using Shares = std::vector<std::int64_t>;

double longest(const std::vector<double>& seconds, const Shares& shares) {
  double most = 0.0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    most = std::max(most, seconds[r] * static_cast<double>(shares[r]));
  return most;
}

// Of all deals of so many shards, each worker having one or more.
double best_of_all(const std::vector<double>& seconds, std::int64_t shards, std::size_t first = 0) {
  const auto left = static_cast<std::int64_t>(seconds.size() - first);
  if (left == 1) return seconds[first] * static_cast<double>(shards);
  double best = 1e30;
  for (std::int64_t own = 1; own <= shards - (left - 1); ++own)
    best = std::min(best, std::max(seconds[first] * static_cast<double>(own),
                                   best_of_all(seconds, shards - own, first + 1)));
  return best;
}

TEST(DealBySpeed, NoOtherDealIsDoneEarlier) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> draw(0.1, 4.0);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> seconds(static_cast<std::size_t>(2 + i % 3));
    for (double& one : seconds) one = draw(random);
    const Shares shares = deal_by_speed(9, seconds);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 9);
    EXPECT_GE(*std::min_element(shares.begin(), shares.end()), 1);
    EXPECT_NEAR(longest(seconds, shares), best_of_all(seconds, 9), 1e-12);
  }
}

TEST(DealBySpeed, EqualWorkersHaveEqualShares) {
  EXPECT_EQ(deal_by_speed(8, std::vector<double>{1, 1, 1, 1}), (Shares{2, 2, 2, 2}));
  EXPECT_EQ(deal_by_speed(8, std::vector<double>{1, 1, 1, 4}), (Shares{3, 2, 2, 1}));
}

// The shares once they change, of workers that take so long for a shard.
std::optional<Shares> after_steps(ShardDealer& dealer, const std::vector<double>& of_shard,
                                  int steps) {
  for (int i = 0; i < steps; ++i) {
    std::vector<double> seconds;
    for (std::size_t r = 0; r < of_shard.size(); ++r)
      seconds.push_back(of_shard[r] * static_cast<double>(dealer.shares()[r]));
    if (auto shares = dealer.add(seconds)) return shares;
  }
  return {};
}

TEST(ShardDealer, ASlowWorkerGetsFewerAndMoreAgainWhenItIsFast) {
  ShardDealer dealer(8, {2, 2, 2, 2});
  EXPECT_EQ(after_steps(dealer, {1, 1, 1, 4}, 50), (Shares{3, 2, 2, 1}));
  EXPECT_EQ(after_steps(dealer, {1, 1, 1, 4}, 50), std::nullopt);
  EXPECT_EQ(after_steps(dealer, {1, 1, 1, 1}, 50), (Shares{2, 2, 2, 2}));
}

TEST(ShardDealer, WhatGainsLittleIsLeftAsItIs) {
  ShardDealer dealer(8, {4, 4});
  EXPECT_EQ(after_steps(dealer, {1, 1.2}, 100), std::nullopt);
}

TEST(ShardDealer, OneSlowStepIsNoReason) {
  ShardDealer dealer(8, {4, 4});
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(dealer.add(std::vector<double>{4, i == 20 ? 6.0 : 4.0}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::train::detail
