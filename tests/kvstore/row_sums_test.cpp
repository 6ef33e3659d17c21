// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/row_sums.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lockstep/base/error.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of;
using Ids = std::vector<std::int64_t>;
using Floats = std::vector<float>;

TEST(RowSums, AddRepeatedIdsInOrderOfPosition) {
  const float small = 1.0F, large = 3e8F;  // of which a sum in another order would differ
  const Ids ids{7, 2, 7, 7, 2};
  const Floats rows{large, 0, 5, 5, small, 1, -large, 2, 1, 1};
  const RowSums sums = sum_by_id(ids, rows, 2);
  EXPECT_EQ(sums.ids, (Ids{2, 7}));
  EXPECT_EQ(sums.rows, (Floats{6, 6, (large + small) - large, 3}));
  EXPECT_EQ(sum_by_id(ids, rows, 2, 7).ids, Ids{2});
  EXPECT_EQ(sum_by_id({}, {}, 2), RowSums{});
}

TEST(RowSums, OfTwoHaveTheRowsOfBoth) {
  const RowSums left{{1, 4, 9}, {1, 4, 9}}, right{{0, 4, 10}, {10, 20, 30}};
  EXPECT_EQ(add_rows(left, right, 1), (RowSums{{0, 1, 4, 9, 10}, {10, 1, 24, 9, 30}}));
  EXPECT_EQ(add_rows(left, {}, 1), left);
  EXPECT_EQ(add_rows({}, right, 1), right);
}

// By the definition: of a shard that has no such row, nothing.
using ByShard = std::vector<std::map<std::int64_t, float>>;
std::optional<float> tree_sum(const ByShard& shards, std::int64_t id, std::int64_t lo,
                              std::int64_t hi) {
  if (hi - lo == 1) {
    const auto& own = shards[static_cast<std::size_t>(lo)];
    return own.contains(id) ? std::optional(own.at(id)) : std::nullopt;
  }
  const std::int64_t middle = tree_middle(lo, hi);
  const auto left = tree_sum(shards, id, lo, middle), right = tree_sum(shards, id, middle, hi);
  if (left && right) return *left + *right;
  return left ? left : right;
}

RowSums sums_of(const std::map<std::int64_t, float>& rows) {
  RowSums sums;
  for (const auto& [id, value] : rows) {
    sums.ids.push_back(id);
    sums.rows.push_back(value);
  }
  return sums;
}

RowSums sum_range(const ByShard& shards, ShardRange range) {
  std::vector<RowNode> leaves;
  for (std::int64_t s = range.lo; s < range.hi; ++s)
    leaves.push_back({{s, s + 1}, sums_of(shards[static_cast<std::size_t>(s)])});
  return sum_row_nodes(range, std::move(leaves), 1);
}

TEST(RowSums, AreTheCanonicalTreesWhoeverHasWhichShards) {
  std::mt19937_64 random(testing::seed_of_this_run());
  std::uniform_real_distribution<float> draw(-1.0F, 1.0F);
  for (const std::int64_t count : {1, 2, 3, 6, 8, 13}) {
    ByShard shards(static_cast<std::size_t>(count));
    for (auto& rows : shards)
      for (std::int64_t id = 0; id < 20; ++id)
        if (random() % 3 == 0) rows[id] = draw(random);
    RowSums expected;
    for (std::int64_t id = 0; id < 20; ++id)
      if (const auto sum = tree_sum(shards, id, 0, count)) {
        expected.ids.push_back(id);
        expected.rows.push_back(*sum);
      }
    for (std::int64_t owners = 1; owners <= std::min<std::int64_t>(count, 5); ++owners) {
      std::vector<RowNode> nodes;
      for (const ShardRange& range : deal_shards(count, owners))
        for (const ShardRange& node : subtrees_in(count, range))
          nodes.push_back({node, sum_range(shards, node)});
      EXPECT_EQ(sum_row_nodes({0, count}, std::move(nodes), 1), expected)
          << count << " shards, " << owners << " owners";
    }
  }
}

TEST(RowSums, GoThereAndBackAsBytes) {
  const RowSums first{{1, 4}, {1, 2, 3, 4}}, second{};
  std::string bytes;
  append_bytes(first, bytes);
  append_bytes(second, bytes);
  std::string_view left = bytes;
  EXPECT_EQ(take_rows(left, 2, 5), first);
  EXPECT_EQ(take_rows(left, 2, 5), second);
  EXPECT_TRUE(left.empty());
}

std::string refusal(const RowSums& sums, std::size_t cut = 0) {
  std::string bytes;
  append_bytes(sums, bytes);
  bytes.resize(bytes.size() - cut);
  std::string_view left = bytes;
  return message_of<Corrupt>([&] { take_rows(left, 1, 5); });
}

TEST(RowSums, ThatAreNoneOfTheTablesAreRefused) {
  EXPECT_EQ(refusal({{1, 5}, {1, 1}}),
            "kvstore: a worker's rows have id 5 after 1, expected ascending ones below 5");
  EXPECT_EQ(refusal({{2, 2}, {1, 1}}),
            "kvstore: a worker's rows have id 2 after 2, expected ascending ones below 5");
  EXPECT_EQ(refusal({{-1}, {1}}),
            "kvstore: a worker's rows have id -1 after -1, expected ascending ones below 5");
  EXPECT_EQ(refusal({{0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}}),
            "kvstore: 6 rows of a worker, the table has 5");
  EXPECT_EQ(refusal({{1, 2}, {1, 1}}, 1),
            "kvstore: rows of a worker end after 7 bytes, expected 2 numbers of 4");
  EXPECT_EQ(refusal({}, 3), "kvstore: rows of a worker end after 5 bytes, expected 1 numbers of 8");
}

}  // namespace
}  // namespace lockstep::kvstore
