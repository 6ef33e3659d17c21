// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "lockstep/comm/transports/in_process.h"
#include "lockstep/tensor/half.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of;

constexpr std::int64_t kShards = 40;
constexpr std::size_t kLength = 20'003;  // several tiles of a compressed sum

float leaf(std::int64_t shard, std::size_t i) {
  return 1.0F / static_cast<float>(1 + (static_cast<std::size_t>(shard) * 7919 + i * 31) % 1009) -
         0.01F;
}

float naive(std::int64_t lo, std::int64_t hi, std::size_t i) {
  if (hi - lo == 1) return leaf(lo, i);
  const std::int64_t mid = tree_middle(lo, hi);
  return naive(lo, mid, i) + naive(mid, hi, i);
}

// Runs `work` as each of so many workers, all at once.
template <class Work>
void as_workers(int count, const Work& work, const AllReduceOptions& options = {}) {
  testing::as_ranks(count, [&](comm::Communicator& communicator) {
    work(*allreduce_exchange(communicator, options));
  });
}

TEST(AllReduceExchange, SumsTheNodesOfAnyNumberOfWorkersInTheTreesOrder) {
  std::vector<float> expected(kLength);
  for (std::size_t i = 0; i < kLength; ++i) expected[i] = naive(0, kShards, i);
  for (int workers : {1, 2, 3, 5, 7})
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
      exchange.sum(nodes, kShards, 0, result);
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

// Forwards to another transport, and keeps the deadlines that it is given.
class DeadlineRecorder final : public comm::Transport {
 public:
  DeadlineRecorder(std::unique_ptr<comm::Transport> inner, std::set<comm::Deadline>& deadlines)
      : inner_(std::move(inner)), deadlines_(deadlines) {}
  std::string_view name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& host(int rank) const override { return inner_->host(rank); }
  void exchange(std::span<comm::Transfer> transfers, comm::Deadline deadline,
                std::string_view operation) override {
    deadlines_.insert(deadline);
    inner_->exchange(transfers, deadline, operation);
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  std::unique_ptr<comm::Transport> inner_;
  std::set<comm::Deadline>& deadlines_;
};

TEST(AllReduceExchange, CollectsWhatIsLargeInPartsWithADeadlineEach) {
  constexpr std::size_t kFloats = (9 << 20) + 5;
  comm::InProcessGroup group({"here", "there"}, 1 << 20);
  std::set<comm::Deadline> deadlines[2];
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      comm::Communicator communicator(
          std::make_unique<DeadlineRecorder>(group.connect(rank), deadlines[rank]));
      std::vector<float> own(kFloats), expected(kFloats);
      std::iota(own.begin(), own.end(), static_cast<float>(rank));
      const std::vector<float> all = allreduce_exchange(communicator)->collect(own);
      ASSERT_EQ(all.size(), rank == 0 ? 2 * kFloats : 0);
      if (rank != 0) return;
      for (std::size_t r = 0; r < 2; ++r) {
        std::iota(expected.begin(), expected.end(), static_cast<float>(r));
        EXPECT_EQ(std::memcmp(all.data() + r * kFloats, expected.data(), kFloats * 4), 0);
      }
    });
  threads.clear();
  for (const auto& of_rank : deadlines) EXPECT_GE(of_rank.size(), 5u);
}

// A worker's nodes over leaves of its own.
struct Nodes {
  std::vector<std::vector<float>> sums;
  std::vector<Exchange::Node> nodes;

  Nodes(const Exchange& exchange, int step) {
    const std::vector<ShardRange> ranges = subtrees_in(kShards, range_of(exchange, kShards));
    for (const ShardRange& range : ranges) {
      sums.emplace_back(kLength);
      for (std::size_t i = 0; i < kLength; ++i)
        sums.back()[i] = naive(range.lo, range.hi, i + static_cast<std::size_t>(step) * 13);
    }
    for (std::size_t n = 0; n < ranges.size(); ++n) nodes.push_back({ranges[n], sums[n]});
  }
};

// What each worker has after some steps, by rank.
std::vector<std::vector<float>> run_steps(int workers, const AllReduceOptions& options, int steps) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(workers));
  as_workers(
      workers,
      [&](Exchange& exchange) {
        std::vector<float>& result = results[static_cast<std::size_t>(exchange.rank())];
        result.resize(kLength);
        for (int step = 0; step < steps; ++step) {
          const Nodes own(exchange, step);
          exchange.sum(own.nodes, kShards, 0, result);
        }
      },
      options);
  return results;
}

TEST(AllReduceExchange, CanonicalAlgorithmsGiveTheSameBitsForAnyNumberOfWorkers) {
  const std::vector<float> expected = run_steps(1, {}, 1)[0];
  for (const char* name : {"tree", "hierarchical", "central"})
    for (int workers : {2, 3, 5})
      for (const auto& result : run_steps(workers, {.algorithm = parse_algorithm(name)}, 1))
        EXPECT_EQ(result, expected) << name << " " << workers;
}

TEST(AllReduceExchange, OthersGiveAllWorkersTheSameBitsNearTheTruth) {
  const std::vector<float> truth = run_steps(1, {}, 1)[0];
  for (const char* name : {"ring", "multi_ring"})
    for (int workers : {2, 3, 5}) {
      const auto results = run_steps(workers, {.algorithm = parse_algorithm(name)}, 1);
      EXPECT_EQ(results, run_steps(workers, {.algorithm = parse_algorithm(name)}, 1));
      for (const auto& result : results) EXPECT_EQ(result, results[0]) << name << " " << workers;
      for (std::size_t i = 0; i < kLength; ++i) ASSERT_NEAR(results[0][i], truth[i], 1e-4F);
    }
}

// The worker's nodes in order, encoded with the residual; payloads decoded in the order of ranks.
std::vector<float> compressed_naively(int workers, const Compression& compression, int steps) {
  const auto codec = make_codec(compression);
  std::vector<std::vector<float>> residuals(static_cast<std::size_t>(workers),
                                            std::vector<float>(kLength));
  std::vector<float> sums(kLength);
  for (int step = 0; step < steps; ++step) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (int rank = 0; rank < workers; ++rank) {
      const ShardRange range = deal_shards(kShards, workers)[static_cast<std::size_t>(rank)];
      std::vector<float> own(kLength);
      const std::vector<ShardRange> nodes = subtrees_in(kShards, range);
      for (std::size_t n = 0; n < nodes.size(); ++n)
        for (std::size_t i = 0; i < kLength; ++i) {
          const std::size_t place = i + static_cast<std::size_t>(step) * 13;
          const float node = naive(nodes[n].lo, nodes[n].hi, place);
          own[i] = n == 0 ? node : own[i] + node;
        }
      std::vector<std::byte> payload(codec->payload_bytes(kLength));
      codec->encode(own, residuals[static_cast<std::size_t>(rank)], payload);
      codec->decode_add(payload, sums);
    }
  }
  return sums;
}

TEST(AllReduceExchange, CompressedSumsAreThoseOfThePayloadsInTheOrderOfRanks) {
  for (const char* name : {"fp16", "bf16", "1bit", "2bit:0.05", "topk:0.1"})
    for (int workers : {1, 2, 3}) {
      const Compression compression = parse_compression(name);
      if (workers == 3 && make_codec(compression)->is_rounding()) continue;  // once more
      const std::vector<float> expected = compressed_naively(workers, compression, 4);
      for (const auto& result : run_steps(workers, {.compression = compression}, 4))
        EXPECT_EQ(result, expected) << name << " " << workers;
    }
}

TEST(AllReduceExchange, ManyWorkersScatterWhatTheyCompressAndGetTheSameBits) {
  for (const char* name : {"1bit", "2bit:0.05", "topk:0.1"}) {
    const Compression compression = parse_compression(name);
    const std::vector<float> expected = compressed_naively(36, compression, 2);
    for (const auto& result : run_steps(36, {.compression = compression}, 2))
      EXPECT_EQ(result, expected) << name;
  }
}

TEST(AllReduceExchange, SumsOfManyWorkersAreRoundedOnceMore) {
  const std::vector<float> expected = compressed_naively(5, parse_compression("bf16"), 1);
  const auto results = run_steps(5, {.compression = parse_compression("bf16")}, 1);
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  for (std::size_t i = 0; i < kLength; ++i)
    ASSERT_EQ(results[0][i], static_cast<float>(BFloat16(expected[i]))) << i;
}

TEST(AllReduceExchange, ResidualsAreKeptByOffset) {
  as_workers(2,
             [](Exchange& exchange) {
               const ShardRange range = range_of(exchange, 2);
               std::vector<float> values(10, 0.4F), result(10);
               const Exchange::Node node{range, values};
               for (std::size_t offset : {std::size_t{0}, std::size_t{10}, std::size_t{10}})
                 exchange.sum({&node, 1}, 2, offset, result);
               EXPECT_EQ(result, std::vector<float>(10, 1.0F));
               const std::span<float> residual = exchange.residual(20);
               EXPECT_EQ(residual[0], 0.4F);
               EXPECT_EQ(residual[10], 0.4F + 0.4F - 0.5F);
               const std::vector<float> all = exchange.collect(residual);
               EXPECT_EQ(all.size(), exchange.rank() == 0 ? 40U : 0U);
             },
             {.compression = parse_compression("2bit:0.5")});
}

TEST(AllReduceExchange, SaysWhatItsBitsDependOn) {
  const auto described = [](const AllReduceOptions& options) {
    std::string text;
    as_workers(
        1,
        [&](Exchange& exchange) {
          text = exchange.description() + (exchange.is_invariant() ? ", invariant" : "");
        },
        options);
    return text;
  };
  for (const char* name : {"tree", "hierarchical", "central"})
    EXPECT_EQ(described({.algorithm = parse_algorithm(name)}), "canonical, invariant");
  EXPECT_EQ(described({.algorithm = comm::Algorithm::ring}), "ring");
  EXPECT_EQ(described({.algorithm = comm::Algorithm::multi_ring}), "multi_ring");
  EXPECT_EQ(described({.compression = parse_compression("2bit:0.5")}), "2bit:0.5");
}

TEST(AllReduceExchange, RefusesWhatDoesNotGoTogether) {
  comm::InProcessGroup group({"here"});
  comm::Communicator communicator(group.connect(0));
  EXPECT_EQ(message_of([&] {
              allreduce_exchange(communicator, {.algorithm = comm::Algorithm::ring,
                                                .compression = parse_compression("fp16")});
            }),
            "allreduce: compressed gradients are gathered, not added on their way: expected "
            "algorithm tree, got ring");
  EXPECT_THROW(allreduce_exchange(communicator, {.algorithm = comm::Algorithm::native}),
               Unsupported);
  EXPECT_EQ(message_of([] { parse_algorithm("star"); }),
            "algorithm 'star': expected tree, ring, multi_ring, hierarchical, central or native");
}

}  // namespace
}  // namespace lockstep::kvstore
