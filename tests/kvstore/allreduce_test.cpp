// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/comm/transports/in_process.h"

namespace lockstep::kvstore {
namespace {

constexpr std::int64_t kShards = 8;
constexpr std::size_t kLength = 3000;

float leaf(std::int64_t shard, std::size_t i) {
  return 1.0F / static_cast<float>(1 + (static_cast<std::size_t>(shard) * 7919 + i * 31) % 1009);
}

float naive(std::int64_t lo, std::int64_t hi, std::size_t i) {
  if (hi - lo == 1) return leaf(lo, i);
  const std::int64_t mid = tree_middle(lo, hi);
  return naive(lo, mid, i) + naive(mid, hi, i);
}

// Runs `work` as each of so many workers, all at once.
template <class Work>
void as_workers(int count, const Work& work) {
  comm::InProcessGroup group(std::vector<std::string>(static_cast<std::size_t>(count), "here"));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&group, &work, rank] {
      comm::Communicator communicator(group.connect(rank));
      work(*allreduce_exchange(communicator));
    });
}

TEST(AllReduceExchange, SumsTheNodesOfAnyNumberOfWorkersInTheTreesOrder) {
  std::vector<float> expected(kLength);
  for (std::size_t i = 0; i < kLength; ++i) expected[i] = naive(0, kShards, i);
  for (int workers : {1, 2, 3, 5, 8})
    as_workers(workers, [&](Exchange& exchange) {
      std::vector<std::vector<float>> sums;
      for (const ShardRange& node : subtrees_in(kShards, range_of(exchange, kShards))) {
        sums.emplace_back(kLength);
        for (std::size_t i = 0; i < kLength; ++i) sums.back()[i] = naive(node.lo, node.hi, i);
      }
      std::vector<Exchange::Node> nodes;
      for (const ShardRange& node : subtrees_in(kShards, range_of(exchange, kShards)))
        nodes.push_back({node, sums[nodes.size()]});
      std::vector<float> result(kLength);
      exchange.sum(nodes, kShards, result);
      EXPECT_EQ(result, expected) << workers << " workers, rank " << exchange.rank();
    });
}

TEST(AllReduceExchange, GathersRowsOfUnevenRangesInTheOrderOfShards) {
  constexpr std::size_t kRow = 3;
  std::vector<float> expected;
  for (std::int64_t s = 0; s < kShards; ++s)
    for (std::size_t i = 0; i < kRow; ++i) expected.push_back(leaf(s, i));
  for (int workers : {1, 3, 5, 8})
    as_workers(workers, [&](Exchange& exchange) {
      const ShardRange range = range_of(exchange, kShards);
      std::vector<float> own, all(kShards * kRow);
      for (std::int64_t s = range.lo; s < range.hi; ++s)
        for (std::size_t i = 0; i < kRow; ++i) own.push_back(leaf(s, i));
      exchange.gather(own, kShards, all);
      EXPECT_EQ(all, expected);
    });
}

TEST(AllReduceExchange, SharesBytesOfDifferentLengths) {
  as_workers(3, [](Exchange& exchange) {
    const std::string own(static_cast<std::size_t>(exchange.rank()) * 5, 'x');
    EXPECT_EQ(exchange.share(own),
              (std::vector<std::string>{"", std::string(5, 'x'), std::string(10, 'x')}));
    EXPECT_EQ(exchange.share(""), (std::vector<std::string>(3)));
  });
}

}  // namespace
}  // namespace lockstep::kvstore
