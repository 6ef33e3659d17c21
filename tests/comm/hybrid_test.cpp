// SPDX-License-Identifier: Apache-2.0
// Groups of several hosts: shared memory inside, something else between.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "lockstep/comm/group.h"
#include "tests/comm/worlds.h"

namespace lockstep::comm {
namespace {

using Floats = std::vector<float>;

// The tree sum of random shards, dealt to the ranks as `ranges` say; what rank 0 gets.
Floats tree_sum_of(const WorldKind& kind, std::span<const ShardRange> ranges, std::size_t count,
                   Algorithm algorithm) {
  const std::int64_t shards = ranges.back().hi;
  std::vector<Floats> leaves;
  std::mt19937 random(7);
  for (std::int64_t i = 0; i < shards; ++i) {
    leaves.emplace_back(count);
    for (float& value : leaves.back()) value = static_cast<float>(random()) / 3e8f - 5.f;
  }
  std::vector<Floats> results(ranges.size(), Floats(count));
  run_ranks(kind, static_cast<int>(ranges.size()), [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const RangePlan plan = plan_range(shards, ranges[rank]);
    std::vector<Floats> stack;
    for (std::size_t i = 0; i < plan.merges.size(); ++i) {
      Floats sum = leaves[static_cast<std::size_t>(ranges[rank].lo) + i];
      for (int merge = 0; merge < plan.merges[i]; ++merge) {
        for (std::size_t k = 0; k < count; ++k) sum[k] = stack.back()[k] + sum[k];
        stack.pop_back();
      }
      stack.push_back(std::move(sum));
    }
    std::vector<TreeNode> nodes;
    for (std::size_t i = 0; i < plan.nodes.size(); ++i)
      nodes.push_back({plan.nodes[i].lo, plan.nodes[i].hi, std::as_bytes(std::span(stack[i]))});
    comm.tree_sum(nodes, shards, std::as_writable_bytes(std::span(results[rank])),
                  {.algorithm = algorithm});
  });
  for (const Floats& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

TEST(Hybrid, TheTreeSumHasTheSameBitsHoweverRanksAndShardsLieOnHosts) {
  const std::vector<ShardRange> whole{{0, 13}};
  const std::vector<std::vector<ShardRange>> dealt{
      {{0, 5}, {5, 9}, {9, 13}},                   // uneven
      {{0, 4}, {4, 8}, {8, 8}, {8, 13}},           // one has none
      {{0, 1}, {1, 6}, {6, 7}, {7, 12}, {12, 13}}  // every host's range is many subtrees
  };
  const std::vector<std::string> places{"aab", "abb", "aba", "aabb", "abba", "aaabb", "abcca"};
  const WorldKind alone{"alone", false, [](int) { return make_in_process_world({"here"}); }};
  for (const std::size_t count : {3u, 1500u, 100'001u}) {
    const Floats expected = tree_sum_of(alone, whole, count, Algorithm::automatic);
    for (const std::string& hosts : places)
      for (const auto& ranges : dealt) {
        if (ranges.size() != hosts.size()) continue;
        const WorldKind kind = make_hosts_kind(hosts);
        EXPECT_EQ(tree_sum_of(kind, ranges, count, Algorithm::automatic), expected) << hosts;
        EXPECT_EQ(tree_sum_of(kind, ranges, count, Algorithm::hierarchical), expected) << hosts;
      }
  }
}

TEST(Hybrid, WhoSharesAHostSharesMemoryAndNobodyElse) {
  const auto name_of = [](const std::string& hosts) {
    const std::unique_ptr<World> world =
        make_hosts_kind(hosts).make(static_cast<int>(hosts.size()));
    std::vector<std::string> names(hosts.size());
    {
      std::vector<std::jthread> ranks;
      for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        ranks.emplace_back(
            [&, rank] { names[rank] = world->connect(static_cast<int>(rank))->name(); });
    }
    EXPECT_EQ(std::count(names.begin(), names.end(), names[0]), std::ssize(names));
    return names[0];
  };
  EXPECT_EQ(name_of("aa"), "shm");
  EXPECT_EQ(name_of("ab"), "tcp");
  EXPECT_EQ(name_of("aab"), "shm+tcp");
}

}  // namespace
}  // namespace lockstep::comm
