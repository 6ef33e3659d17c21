// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/tensor/half.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of;

constexpr std::int64_t kReducedShards = 40;
constexpr std::size_t kLength = 20'003;  // several tiles of a compressed sum

float reduced_leaf(std::int64_t shard, std::size_t i) {
  return 1.0F / static_cast<float>(1 + (static_cast<std::size_t>(shard) * 7919 + i * 31) % 1009) -
         0.01F;
}

float reduced_tree(std::int64_t lo, std::int64_t hi, std::size_t i) {
  if (hi - lo == 1) return reduced_leaf(lo, i);
  const std::int64_t mid = tree_middle(lo, hi);
  return reduced_tree(lo, mid, i) + reduced_tree(mid, hi, i);
}

// Runs `work` as each of so many workers, all at once.
template <class Work>
void as_reducing_workers(int count, const Work& work, const AllReduceOptions& options = {}) {
  testing::as_ranks(count, [&](comm::Communicator& communicator) {
    work(*allreduce_mode(communicator, options));
  });
}

// A worker's nodes over leaves of its own.
struct Nodes {
  std::vector<std::vector<float>> sums;
  std::vector<Synchronizer::Node> nodes;

  Nodes(const ShardRange& own, int step) {
    const std::vector<ShardRange> ranges = subtrees_in(kReducedShards, own);
    for (const ShardRange& range : ranges) {
      sums.emplace_back(kLength);
      for (std::size_t i = 0; i < kLength; ++i)
        sums.back()[i] = reduced_tree(range.lo, range.hi, i + static_cast<std::size_t>(step) * 13);
    }
    for (std::size_t n = 0; n < ranges.size(); ++n) nodes.push_back({ranges[n], sums[n]});
  }
};

// Parameters of these lengths, and a rule that keeps nothing.
std::unique_ptr<FlatState> state_of(std::initializer_list<std::size_t> counts) {
  FlatLayout layout;
  for (const std::size_t count : counts) layout.add({.count = count});
  return std::make_unique<FlatState>(layout, optim::sgd({}));
}

Vote commit_rows(Synchronizer& synchronizer, std::int64_t shards, const Vote& own = {}) {
  std::vector<float> rows(static_cast<std::size_t>(shards));
  ThreadTeam caller(1);
  return synchronizer.commit(own, rows, caller);
}

// The sums that each worker has after some steps, by rank.
std::vector<std::vector<float>> run_steps(int workers, const AllReduceOptions& options, int steps) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(workers));
  as_reducing_workers(
      workers,
      [&](Mode& mode) {
        const auto state = state_of({kLength});
        const auto synchronizer = mode.synchronize(*state, kReducedShards);
        for (int step = 0; step < steps; ++step) {
          const Nodes own(mode.group().range(kReducedShards), step);
          synchronizer->begin(step, 0.1);
          synchronizer->give(0, own.nodes);
          commit_rows(*synchronizer, kReducedShards);
        }
        const std::span<const float> sums = synchronizer->sums().first(kLength);
        results[static_cast<std::size_t>(mode.group().rank())].assign(sums.begin(), sums.end());
      },
      options);
  return results;
}

TEST(AllReduce, SumsTheNodesOfAnyNumberOfWorkersInTheTreesOrder) {
  std::vector<float> expected(kLength);
  for (std::size_t i = 0; i < kLength; ++i) expected[i] = reduced_tree(0, kReducedShards, i);
  for (int workers : {1, 2, 3, 5, 7})
    for (const auto& result : run_steps(workers, {}, 1)) EXPECT_EQ(result, expected) << workers;
}

TEST(AllReduce, GathersRowsOfUnevenRangesInTheOrderOfShards) {
  constexpr std::size_t kRow = 3;
  std::vector<float> expected;
  for (std::int64_t s = 0; s < kReducedShards; ++s)
    for (std::size_t i = 0; i < kRow; ++i) expected.push_back(reduced_leaf(s, i));
  for (int workers : {1, 3, 5, 8})
    as_reducing_workers(workers, [&](Mode& mode) {
      const ShardRange range = mode.group().range(kReducedShards);
      std::vector<float> rows(kReducedShards * kRow);
      for (auto i = static_cast<std::size_t>(range.lo) * kRow;
           i < static_cast<std::size_t>(range.hi) * kRow; ++i)
        rows[i] = expected[i];
      const Vote own{.finite = mode.group().rank() != 2, .stop = mode.group().rank() == 1};
      EXPECT_EQ(mode.group().gather(own, kReducedShards, rows),
                (Vote{.finite = workers<3, .stop = workers> 1}));
      EXPECT_EQ(rows, expected);
    });
}

TEST(AllReduce, SharesBytesOfDifferentLengths) {
  as_reducing_workers(3, [](Mode& mode) {
    const std::string own(static_cast<std::size_t>(mode.group().rank()) * 5, 'x');
    EXPECT_EQ(mode.group().share(own),
              (std::vector<std::string>{"", std::string(5, 'x'), std::string(10, 'x')}));
    EXPECT_EQ(mode.group().share(""), (std::vector<std::string>(3)));
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
  std::unique_ptr<comm::Transport> subgroup(const std::vector<int>& ranks,
                                            comm::Deadline deadline) override {
    return inner_->subgroup(ranks, deadline);
  }

 private:
  std::unique_ptr<comm::Transport> inner_;
  std::set<comm::Deadline>& deadlines_;
};

TEST(AllReduce, CollectsWhatIsLargeInPartsWithADeadlineEach) {
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
      const std::vector<float> all =
          group_of(communicator, cluster::workers_of(communicator), std::chrono::seconds(20))
              ->collect(own);
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

TEST(AllReduce, CanonicalAlgorithmsGiveTheSameBitsForAnyNumberOfWorkers) {
  const std::vector<float> expected = run_steps(1, {}, 1)[0];
  for (const char* name : {"tree", "hierarchical", "central"})
    for (int workers : {2, 3, 5})
      for (const auto& result : run_steps(workers, {.algorithm = parse_algorithm(name)}, 1))
        EXPECT_EQ(result, expected) << name << " " << workers;
}

TEST(AllReduce, OthersGiveAllWorkersTheSameBitsNearTheTruth) {
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
      const ShardRange range = deal_shards(kReducedShards, workers)[static_cast<std::size_t>(rank)];
      std::vector<float> own(kLength);
      const std::vector<ShardRange> nodes = subtrees_in(kReducedShards, range);
      for (std::size_t n = 0; n < nodes.size(); ++n)
        for (std::size_t i = 0; i < kLength; ++i) {
          const std::size_t place = i + static_cast<std::size_t>(step) * 13;
          const float node = reduced_tree(nodes[n].lo, nodes[n].hi, place);
          own[i] = n == 0 ? node : own[i] + node;
        }
      std::vector<std::byte> payload(codec->payload_bytes(kLength));
      codec->encode(own, residuals[static_cast<std::size_t>(rank)], payload);
      codec->decode_add(payload, sums);
    }
  }
  return sums;
}

TEST(AllReduce, CompressedSumsAreThoseOfThePayloadsInTheOrderOfRanks) {
  for (const char* name : {"fp16", "bf16", "1bit", "2bit:0.05", "topk:0.1"})
    for (int workers : {1, 2, 3}) {
      const Compression compression = parse_compression(name);
      if (workers == 3 && make_codec(compression)->is_rounding()) continue;  // once more
      const std::vector<float> expected = compressed_naively(workers, compression, 4);
      for (const auto& result : run_steps(workers, {.compression = compression}, 4))
        EXPECT_EQ(result, expected) << name << " " << workers;
    }
}

TEST(AllReduce, ManyWorkersScatterWhatTheyCompressAndGetTheSameBits) {
  for (const char* name : {"1bit", "2bit:0.05", "topk:0.1"}) {
    const Compression compression = parse_compression(name);
    const std::vector<float> expected = compressed_naively(36, compression, 2);
    for (const auto& result : run_steps(36, {.compression = compression}, 2))
      EXPECT_EQ(result, expected) << name;
  }
}

TEST(AllReduce, SumsOfManyWorkersAreRoundedOnceMore) {
  const std::vector<float> expected = compressed_naively(5, parse_compression("bf16"), 1);
  const auto results = run_steps(5, {.compression = parse_compression("bf16")}, 1);
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  for (std::size_t i = 0; i < kLength; ++i)
    ASSERT_EQ(results[0][i], static_cast<float>(BFloat16(expected[i]))) << i;
}

TEST(AllReduce, ResidualsAreKeptByOffsetAndChangeWhenAStepIsCommitted) {
  as_reducing_workers(2,
                      [](Mode& mode) {
                        const auto state = state_of({10, 10});
                        const auto synchronizer = mode.synchronize(*state, 2);
                        const auto give = [&](std::size_t offset, float value) {
                          const std::vector<float> values(10, value);
                          const Synchronizer::Node node{mode.group().range(2), values};
                          synchronizer->give(offset, {&node, 1});
                        };
                        const std::size_t second =
                            synchronizer->state().layout().parameters[1].offset;
                        for (const bool counts : {false, true}) {
                          synchronizer->begin(0, 0.1);
                          give(0, 0.4F), give(second, 0.4F);
                          commit_rows(*synchronizer, 2, {.finite = counts});
                          EXPECT_EQ(synchronizer->residual()[0], counts ? 0.4F : 0.0F);
                        }
                        synchronizer->begin(1, 0.1);
                        give(0, 0.0F), give(second, 0.4F);
                        commit_rows(*synchronizer, 2);
                        EXPECT_EQ(synchronizer->sums()[second], 1.0F);
                        const std::span<const float> residual = synchronizer->residual();
                        EXPECT_EQ(residual[0], 0.4F);
                        EXPECT_EQ(residual[second], 0.4F + 0.4F - 0.5F);
                        const std::vector<float> all = mode.group().collect(residual);
                        EXPECT_EQ(all.size(), mode.group().is_first() ? 2 * residual.size() : 0U);
                      },
                      {.compression = parse_compression("2bit:0.5")});
}

TEST(AllReduce, SaysWhatItsBitsDependOn) {
  const auto described = [](const AllReduceOptions& options) {
    std::string text;
    as_reducing_workers(
        1,
        [&](Mode& mode) { text = mode.description() + (mode.is_invariant() ? ", invariant" : ""); },
        options);
    return text;
  };
  for (const char* name : {"tree", "hierarchical", "central"})
    EXPECT_EQ(described({.algorithm = parse_algorithm(name)}), "canonical, invariant");
  EXPECT_EQ(described({.algorithm = comm::Algorithm::ring}), "ring");
  EXPECT_EQ(described({.algorithm = comm::Algorithm::multi_ring}), "multi_ring");
  EXPECT_EQ(described({.compression = parse_compression("2bit:0.5")}), "2bit:0.5");
}

TEST(AllReduce, RefusesWhatDoesNotGoTogether) {
  comm::InProcessGroup group({"here"});
  comm::Communicator communicator(group.connect(0));
  EXPECT_EQ(message_of([&] {
              allreduce_mode(communicator, {.algorithm = comm::Algorithm::ring,
                                            .compression = parse_compression("fp16")});
            }),
            "allreduce: compressed gradients are gathered, not added on their way: expected "
            "algorithm tree, got ring");
  EXPECT_THROW(allreduce_mode(communicator, {.algorithm = comm::Algorithm::native}), Unsupported);
  EXPECT_EQ(message_of([] { parse_algorithm("star"); }),
            "algorithm 'star': expected tree, ring, multi_ring, hierarchical, central or native");
}

}  // namespace
}  // namespace lockstep::kvstore
