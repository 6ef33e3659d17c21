// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/tree_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/tensor/philox.h"

namespace lockstep::kvstore {
namespace {

float leaf_value(std::int64_t shard) {
  const std::uint32_t bits = random_bits({.seed = 5}, static_cast<std::uint64_t>(shard));
  return std::ldexp(unit_float(bits) - 0.5f, static_cast<int>(bits % 17));
}

// The definition, word for word.
float naive_tree(std::int64_t lo, std::int64_t hi) {
  if (hi - lo == 1) return leaf_value(lo);
  std::int64_t half = 1;
  while (half * 2 < hi - lo) half *= 2;
  return naive_tree(lo, lo + half) + naive_tree(lo + half, hi);
}

// Runs the owners' plans, then the rest, as the engine does.
float by_owners(std::int64_t shards, std::int64_t owners) {
  std::vector<ShardRange> nodes;
  std::vector<float> sums;
  for (const ShardRange& range : deal_shards(shards, owners)) {
    const RangePlan plan = plan_range(shards, range);
    EXPECT_EQ(static_cast<std::int64_t>(plan.merges.size()), range.hi - range.lo);
    std::vector<float> stack;
    for (std::int64_t shard = range.lo; shard < range.hi; ++shard) {
      const float leaf = leaf_value(shard);
      const auto merges =
          static_cast<std::size_t>(plan.merges[static_cast<std::size_t>(shard - range.lo)]);
      std::vector<const float*> terms;
      for (std::size_t m = 0; m < merges; ++m) terms.push_back(&stack[stack.size() - 1 - m]);
      float target = 0;
      EXPECT_TRUE(add_leaf({&leaf, 1}, terms, &target, true));
      stack.resize(stack.size() - merges);
      stack.push_back(target);
      EXPECT_LE(static_cast<int>(stack.size()), plan.depth);
    }
    EXPECT_EQ(stack.size(), plan.nodes.size());
    EXPECT_EQ(std::count(plan.completes.begin(), plan.completes.end(), true),
              static_cast<std::ptrdiff_t>(plan.nodes.size()));
    nodes.insert(nodes.end(), plan.nodes.begin(), plan.nodes.end());
    sums.insert(sums.end(), stack.begin(), stack.end());
  }
  std::vector<float> stack;
  for (int word : plan_rest(shards, nodes)) {
    if (word != kAdd) {
      stack.push_back(sums[static_cast<std::size_t>(word)]);
      continue;
    }
    const float right = stack.back();
    stack.pop_back();
    stack.back() += right;
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack[0];
}

TEST(TreeSum, IsTheSameForAnyNumberOfOwners) {
  for (std::int64_t shards = 1; shards <= 37; ++shards)
    for (std::int64_t owners = 1; owners <= shards; ++owners)
      ASSERT_EQ(by_owners(shards, owners), naive_tree(0, shards)) << shards << " by " << owners;
}

TEST(TreeSum, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(tree_middle(0, 8), 4);
  EXPECT_EQ(tree_middle(0, 5), 4);
  EXPECT_EQ(tree_middle(2, 4), 3);
  EXPECT_EQ(tree_middle(4, 7), 6);
}

TEST(TreeSum, OneOwnerNeedsALogarithmOfBuffers) {
  EXPECT_EQ(plan_range(8, {0, 8}).depth, 3);
  EXPECT_EQ(plan_range(1, {0, 1}).depth, 1);
  EXPECT_EQ(plan_range(64, {0, 64}).depth, 6);
}

TEST(AddLeaf, AddsFromTheInsideOutOverManyTiles) {
  const std::size_t count = 5000;
  std::vector<float> leaf(count), inner(count), outer(count), expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    leaf[i] = leaf_value(static_cast<std::int64_t>(3 * i));
    inner[i] = leaf_value(static_cast<std::int64_t>(3 * i + 1));
    outer[i] = leaf_value(static_cast<std::int64_t>(3 * i + 2));
    expected[i] = outer[i] + (inner[i] + leaf[i]);
  }
  const float* terms[] = {inner.data(), outer.data()};
  EXPECT_TRUE(add_leaf(leaf, terms, outer.data(), true));
  EXPECT_EQ(outer, expected);
}

TEST(AddLeaf, SaysWhenASumIsNotFinite) {
  std::vector<float> leaf(5000, 1.0f), target(5000);
  EXPECT_TRUE(add_leaf(leaf, {}, target.data(), true));
  leaf[4321] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(add_leaf(leaf, {}, target.data(), true));
  leaf[4321] = -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(add_leaf(leaf, {}, target.data(), true));
}

}  // namespace
}  // namespace lockstep::kvstore
