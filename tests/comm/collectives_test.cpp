// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/comm/worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::message_of;
using Floats = std::vector<float>;

// Values whose sums depend on the order.
float value_at(std::int64_t source, std::size_t i) {
  const auto mixed =
      static_cast<std::uint32_t>(source * 7919 + static_cast<std::int64_t>(i) * 104729);
  return std::ldexp(static_cast<float>(mixed * 2654435761u >> 8) - 8e6f,
                    -static_cast<int>((mixed >> 3) % 19));
}

Floats values_of(std::int64_t source, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at(source, i);
  return values;
}

// The definition of the canonical sum, word for word.
float tree_value(std::int64_t lo, std::int64_t hi, std::size_t i) {
  if (hi - lo == 1) return value_at(lo, i);
  std::int64_t half = 1;
  while (half * 2 < hi - lo) half *= 2;
  return tree_value(lo, lo + half, i) + tree_value(lo + half, hi, i);
}

Floats tree_values(std::int64_t lo, std::int64_t hi, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = tree_value(lo, hi, i);
  return values;
}

class Collectives : public ::testing::TestWithParam<WorldKind> {
 protected:
  void on_ranks(int size, const std::function<void(Communicator&)>& body) {
    run_ranks(GetParam(), size, body);
  }
};

const std::size_t kCounts[] = {0, 1, 7, 1025, 30'001};

TEST_P(Collectives, AllReduceAddsInTheCanonicalOrderForAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 4, 5, 8})
    on_ranks(size, [&](Communicator& comm) {
      for (const std::size_t count : kCounts)
        for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::central}) {
          Floats data = values_of(comm.rank(), count);
          comm.all_reduce(bytes_of(data), Element::float32, Reduction::sum,
                          {.algorithm = algorithm});
          ASSERT_EQ(data, tree_values(0, size, count)) << size << " " << count;
        }
    });
}

TEST_P(Collectives, ALargeAllReduceGoesInManyChunks) {
  for (const int size : {2, 3})
    on_ranks(size, [&](Communicator& comm) {
      const std::size_t count = 1'500'001;
      Floats data = values_of(comm.rank(), count);
      comm.all_reduce(bytes_of(data), Element::float32, Reduction::sum);
      ASSERT_EQ(data, tree_values(0, size, count));
    });
}

TEST_P(Collectives, DataInAllocatedMemoryGivesTheSameBits) {
  for (const int size : {1, 2, 3, 5})
    on_ranks(size, [&](Communicator& comm) {
      const std::size_t most = 300'001;
      comm.allocate(100);  // what follows lies in a block of its own
      const std::span<std::byte> memory = comm.allocate((most + 16) * sizeof(float));
      ASSERT_EQ(memory.size(), (most + 16) * sizeof(float));
      auto* floats = reinterpret_cast<float*>(memory.data());
      EXPECT_EQ(floats[most], 0.f);
      for (const std::size_t count : {std::size_t{5}, std::size_t{8'192}, most})
        for (const int offset : {0, 7}) {
          const Floats own = values_of(comm.rank(), count);
          std::copy(own.begin(), own.end(), floats + offset);
          comm.all_reduce(memory.subspan(offset * sizeof(float), count * sizeof(float)),
                          Element::float32, Reduction::sum);
          ASSERT_EQ(Floats(floats + offset, floats + offset + count), tree_values(0, size, count));
          ASSERT_EQ(floats[offset + count], offset == 0 ? floats[offset + count] : 0.f);
        }
    });
}

TEST_P(Collectives, TreeSumTakesNodesAndResultsFromAllocatedMemory) {
  const std::size_t count = 100'003;
  on_ranks(2, [&](Communicator& comm) {
    const std::span<std::byte> memory = comm.allocate(2 * count * sizeof(float));
    const std::span<std::byte> node = memory.first(count * sizeof(float));
    const std::span<std::byte> result = memory.subspan(count * sizeof(float));
    const bool first = comm.rank() == 0;
    const std::int64_t lo = first ? 0 : 4, hi = first ? 4 : 6;
    const Floats sums = tree_values(lo, hi, count);
    std::memcpy(node.data(), sums.data(), node.size());
    const TreeNode nodes[] = {{lo, hi, node}};
    // The second time one rank has its result elsewhere, which the others find out.
    Floats elsewhere(count);
    for (const bool here : {true, first}) {
      const std::span<std::byte> to = here ? result : bytes_of(elsewhere);
      comm.tree_sum(nodes, 6, to);
      ASSERT_EQ(std::memcmp(to.data(), bytes_of(tree_values(0, 6, count)).data(), to.size()), 0);
    }
  });
}

TEST_P(Collectives, RingsGiveTheSameBitsOnAllRanksAndInEveryRun) {
  for (const int size : {1, 2, 3, 4, 5, 8})
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::multi_ring})
      for (const std::size_t count : {5, 40'001, 500'003}) {
        if (count > 100'000 && size > 3) continue;  // several blocks; costs time
        std::vector<Floats> results(static_cast<std::size_t>(size));
        on_ranks(size, [&](Communicator& comm) {
          Floats first = values_of(comm.rank(), count), second = first;
          comm.all_reduce(bytes_of(first), Element::float32, Reduction::sum,
                          {.algorithm = algorithm});
          comm.all_reduce(bytes_of(second), Element::float32, Reduction::sum,
                          {.algorithm = algorithm});
          ASSERT_EQ(first, second);
          results[static_cast<std::size_t>(comm.rank())] = first;
        });
        for (const Floats& result : results) ASSERT_EQ(result, results[0]);
        for (std::size_t i = 0; i < count; ++i) {
          double exact = 0, magnitude = 0;
          for (int rank = 0; rank < size; ++rank) {
            exact += value_at(rank, i);
            magnitude += std::abs(value_at(rank, i));
          }
          ASSERT_NEAR(results[0][i], exact, 1e-6 * magnitude);
        }
      }
}

template <class T>
void check_integers(Communicator& comm, Element element) {
  const auto value = [](int rank, int i) { return static_cast<T>((rank * 37 + i * 11) % 50); };
  for (const Reduction reduction : {Reduction::sum, Reduction::minimum, Reduction::maximum}) {
    std::vector<T> data(301), expected(301);
    for (int i = 0; i < 301; ++i) {
      T all = value(0, i);
      for (int rank = 1; rank < comm.size(); ++rank) {
        const T next = value(rank, i);
        all = reduction == Reduction::sum       ? static_cast<T>(all + next)
              : reduction == Reduction::minimum ? std::min(all, next)
                                                : std::max(all, next);
      }
      data[static_cast<std::size_t>(i)] = value(comm.rank(), i);
      expected[static_cast<std::size_t>(i)] = all;
    }
    comm.all_reduce(std::as_writable_bytes(std::span(data)), element, reduction);
    ASSERT_EQ(data, expected) << element_name(element) << " " << reduction_name(reduction);
  }
}

TEST_P(Collectives, EveryElementTypeAndReductionIsExactOnSmallWholeNumbers) {
  on_ranks(3, [](Communicator& comm) {
    check_integers<float>(comm, Element::float32);
    check_integers<double>(comm, Element::float64);
    check_integers<std::int32_t>(comm, Element::int32);
    check_integers<std::int64_t>(comm, Element::int64);
    check_integers<std::uint8_t>(comm, Element::uint8);
  });
}

TEST_P(Collectives, ReduceGivesTheRootTheSumAndLeavesTheOthersAlone) {
  for (const int size : {1, 2, 5})
    on_ranks(size, [&](Communicator& comm) {
      for (const std::size_t count : kCounts)
        for (const int root : {0, size - 1}) {
          const Floats mine = values_of(comm.rank(), count);
          Floats data = mine;
          comm.reduce(bytes_of(data), Element::float32, Reduction::sum, root);
          ASSERT_EQ(data, comm.rank() == root ? tree_values(0, size, count) : mine);
        }
    });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsPart) {
  for (int size = 1; size <= 5; ++size)
    on_ranks(size, [&](Communicator& comm) {
      for (const std::size_t count : kCounts) {
        const auto ranks = static_cast<std::size_t>(size);
        const auto rank = static_cast<std::ptrdiff_t>(comm.rank());
        const Floats data = values_of(comm.rank(), count * ranks);
        Floats part(count);
        comm.reduce_scatter(bytes_of(data), bytes_of(part), Element::float32, Reduction::sum);
        const Floats all = tree_values(0, size, count * ranks);
        const auto begin = all.begin() + rank * static_cast<std::ptrdiff_t>(count);
        ASSERT_EQ(part, Floats(begin, begin + static_cast<std::ptrdiff_t>(count)));
      }
    });
}

TEST_P(Collectives, GatheringAndScatteringPutEachPartInItsPlace) {
  for (int size = 1; size <= 4; ++size)
    on_ranks(size, [&](Communicator& comm) {
      for (const std::size_t count : kCounts) {
        Floats expected;
        for (int rank = 0; rank < size; ++rank) {
          const Floats part = values_of(rank, count);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        const Floats mine = values_of(comm.rank(), count);
        Floats all(expected.size());
        comm.all_gather(bytes_of(mine), bytes_of(all));
        ASSERT_EQ(all, expected);
        const int root = size / 2;
        Floats gathered(comm.rank() == root ? expected.size() : 0);
        comm.gather(bytes_of(mine), bytes_of(gathered), root);
        ASSERT_EQ(gathered, comm.rank() == root ? expected : Floats());
        Floats part(count);
        comm.scatter(bytes_of(gathered), bytes_of(part), root);
        ASSERT_EQ(part, mine);
      }
    });
}

TEST_P(Collectives, BroadcastReachesEveryRankFromEveryRoot) {
  for (const int size : {1, 2, 3, 7})
    on_ranks(size, [&](Communicator& comm) {
      for (const std::size_t count : kCounts)
        for (int root = 0; root < size; ++root) {
          Floats data = values_of(comm.rank(), count);
          comm.broadcast(bytes_of(data), root);
          ASSERT_EQ(data, values_of(root, count));
        }
    });
}

TEST_P(Collectives, AllToAllTransposes) {
  for (int size = 1; size <= 5; ++size)
    on_ranks(size, [&](Communicator& comm) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{9001}}) {
        Floats data, expected;
        for (int peer = 0; peer < size; ++peer) {
          const Floats out = values_of(comm.rank() * 100 + peer, count);
          const Floats in = values_of(peer * 100 + comm.rank(), count);
          data.insert(data.end(), out.begin(), out.end());
          expected.insert(expected.end(), in.begin(), in.end());
        }
        Floats result(data.size());
        comm.all_to_all(bytes_of(data), bytes_of(result));
        ASSERT_EQ(result, expected);
      }
    });
}

TEST_P(Collectives, NobodyLeavesABarrierBeforeAllHaveCome) {
  for (const int size : {1, 2, 3, 5, 8}) {
    std::atomic<int> come = 0;
    on_ranks(size, [&](Communicator& comm) {
      for (int round = 1; round <= 5; ++round) {
        ++come;
        comm.barrier();
        ASSERT_GE(come, round * size);
        comm.barrier();
      }
    });
  }
}

TEST_P(Collectives, SentBytesArriveInOrderHoweverTheyAreCut) {
  on_ranks(2, [](Communicator& comm) {
    const Floats sent = values_of(3, 100'000);
    Floats got(sent.size());
    if (comm.rank() == 0) {
      comm.send(bytes_of(sent).first(1001), 1);
      comm.send(bytes_of(sent).subspan(1001), 1);
    } else {
      comm.receive(bytes_of(got).first(300'000), 0);
      comm.receive(bytes_of(got).subspan(300'000), 0);
      ASSERT_EQ(got, sent);
    }
  });
}

TEST_P(Collectives, TwoSendToEachOtherAtOnceHoweverMuch) {
  on_ranks(2, [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    const Floats sent = values_of(comm.rank(), 1'000'000), expected = values_of(peer, 1'000'000);
    Floats got(expected.size());
    comm.send_receive(bytes_of(sent), bytes_of(got), peer);
    ASSERT_EQ(got, expected);
  });
}

// Each rank's nodes for a range of shards, with its values.
void check_tree_sum(Communicator& comm, std::int64_t shards, ShardRange range, std::size_t count,
                    Algorithm algorithm, std::span<const ShardRange> known = {}) {
  std::vector<Floats> sums;
  for (const ShardRange& node : subtrees_in(shards, range))
    sums.push_back(tree_values(node.lo, node.hi, count));
  std::vector<TreeNode> nodes;
  for (const ShardRange& node : subtrees_in(shards, range))
    nodes.push_back({node.lo, node.hi, bytes_of(std::as_const(sums[nodes.size()]))});
  Floats result(count);
  comm.tree_sum(nodes, shards, bytes_of(result), {.algorithm = algorithm}, known);
  ASSERT_EQ(result, tree_values(0, shards, count)) << shards << " shards, rank " << comm.rank();
}

TEST_P(Collectives, TreeSumIsTheSameForEveryWayToDealTheShards) {
  for (int size = 1; size <= 5; ++size)
    on_ranks(size, [&](Communicator& comm) {
      for (const std::int64_t shards : {1, 2, 3, 5, 6, 8, 13})
        for (std::int64_t skew = 0; skew < 3; ++skew) {
          // Skewed: the first rank has that many more, and the last ones may have none.
          std::vector<ShardRange> ranges =
              deal_shards(std::max<std::int64_t>(shards - skew, 0), size);
          for (ShardRange& range : ranges) {
            range.lo = &range == &ranges[0] ? 0 : std::min(range.lo + skew, shards);
            range.hi = std::min(range.hi + skew, shards);
          }
          const ShardRange mine = ranges[static_cast<std::size_t>(comm.rank())];
          for (const std::size_t count : {std::size_t{1}, std::size_t{12'051}}) {
            for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::central})
              check_tree_sum(comm, shards, mine, count, algorithm);
            check_tree_sum(comm, shards, mine, count, Algorithm::automatic, ranges);
          }
        }
    });
}

// Pieces of different lengths, by turns; what is left between two pieces is nobody's, and the last
// rank has none where `skips` says so.
std::vector<ElementRanges> parts_by_turns(int size, std::size_t count, std::size_t piece,
                                          bool skips) {
  std::vector<ElementRanges> parts(static_cast<std::size_t>(size));
  const std::size_t owners = skips && size > 1 ? parts.size() - 1 : parts.size();
  for (std::size_t begin = 0, turn = 0; begin < count; begin += piece + turn % 3, ++turn)
    parts[turn * 7 % owners].push_back({begin, std::min(begin + piece, count)});
  return parts;
}

TEST_P(Collectives, SumsOfPartsGoToTheirOwnersAloneAndBackToAll) {
  for (const int size : {1, 2, 3, 5})
    on_ranks(size, [&](Communicator& comm) {
      for (const std::int64_t shards : {5, 8, 13})
        for (const std::size_t count : kCounts)
          for (const std::size_t piece : {1U, 500U, 16'384U}) {
            if (count > 1025 && piece == 1) continue;  // as many transfers
            const std::vector<ElementRanges> parts = parts_by_turns(
                size, count, std::min(piece, std::max<std::size_t>(count / 3, 1)), shards == 13);
            const std::vector<ShardRange> ranges = deal_shards(shards, size);
            const ShardRange mine = ranges[static_cast<std::size_t>(comm.rank())];
            std::vector<Floats> sums;
            std::vector<TreeNode> nodes;
            for (const ShardRange& node : subtrees_in(shards, mine))
              sums.push_back(tree_values(node.lo, node.hi, count));
            for (const ShardRange& node : subtrees_in(shards, mine))
              nodes.push_back({node.lo, node.hi, bytes_of(std::as_const(sums[nodes.size()]))});
            Floats expected, all(count, -1.0F), whole(count, -1.0F);
            for (const ElementRange& part : parts[static_cast<std::size_t>(comm.rank())])
              for (std::size_t i = part.begin; i < part.end; ++i)
                expected.push_back(all[i] = tree_value(0, shards, i));
            for (const ElementRanges& of_rank : parts)
              for (const ElementRange& part : of_rank)
                for (std::size_t i = part.begin; i < part.end; ++i)
                  whole[i] = tree_value(0, shards, i);
            Floats own(expected.size());
            comm.tree_scatter(nodes, shards, parts, bytes_of(own), {}, ranges);
            ASSERT_EQ(own, expected) << size << " ranks, " << count << " floats";
            comm.all_gather_parts(bytes_of(all), parts);
            ASSERT_EQ(all, whole) << size << " ranks, " << count << " floats";
          }
    });
}

TEST(InProcess, PartsThatAreNotOfTheDataAreRefused) {
  run_ranks(world_kinds()[0], 2, [](Communicator& comm) {
    Floats data(10), own(3);
    const std::vector<ShardRange> ranges = deal_shards(2, 2);
    const std::vector<TreeNode> nodes{
        {comm.rank(), comm.rank() + 1, bytes_of(std::as_const(data))}};
    const std::vector<ElementRanges> good{{{0, 3}}, {{3, 6}}}, outside{{{0, 3}}, {{8, 11}}};
    EXPECT_EQ(message_of<InvalidArgument>([&] { comm.all_gather_parts(bytes_of(data), outside); }),
              "all_gather_parts: a part is 8 to 11, of 10 floats");
    EXPECT_EQ(message_of<InvalidArgument>(
                  [&] { comm.all_gather_parts(bytes_of(data), std::span(good).first(1)); }),
              "all_gather_parts: got the parts of 1 ranks, expected those of 2");
    Floats less(2);
    EXPECT_EQ(message_of<InvalidArgument>(
                  [&] { comm.tree_scatter(nodes, 2, good, bytes_of(less), {}, ranges); }),
              "tree_scatter: own has 8 bytes, expected 12");
    comm.tree_scatter(nodes, 2, good, bytes_of(own), {}, ranges);
  });
}

TEST(Hierarchical, HostsAddInTheCanonicalOrderToo) {
  const std::vector<std::vector<std::string>> layouts = {
      {"a", "a", "b", "b", "b"}, {"a", "b", "b"}, {"a", "b", "a", "b"}, {"a", "a", "a", "b"}};
  for (const std::vector<std::string>& hosts : layouts) {
    const WorldKind kind{"hosts", false, [&](int) { return make_in_process_world(hosts); }};
    const int size = static_cast<int>(hosts.size());
    run_ranks(kind, size, [&](Communicator& comm) {
      for (const std::int64_t shards : {3, 8, 13}) {
        const ShardRange mine = deal_shards(shards, size)[static_cast<std::size_t>(comm.rank())];
        for (const std::size_t count : {std::size_t{1}, std::size_t{12'051}})
          check_tree_sum(comm, shards, mine, count, Algorithm::hierarchical);
      }
      Floats data = values_of(comm.rank(), 5001);
      comm.all_reduce(bytes_of(data), Element::float32, Reduction::sum,
                      {.algorithm = Algorithm::hierarchical});
      ASSERT_EQ(data, tree_values(0, size, 5001));
    });
  }
}

TEST(InProcess, ATransportWithoutAnAllReduceOfItsOwnSaysSo) {
  run_ranks(world_kinds()[0], 2, [](Communicator& comm) {
    Floats data(1);
    EXPECT_EQ(message_of<Unsupported>([&] {
                comm.all_reduce(bytes_of(data), Element::float32, Reduction::sum,
                                {.algorithm = Algorithm::native});
              }),
              "all_reduce: transport in_process has no all-reduce of its own, expected algorithm "
              "tree, ring, multi_ring, hierarchical or central");
  });
}

TEST_P(Collectives, StartedCallsRunInOrderAndBlockingOnesWaitForThem) {
  on_ranks(3, [](Communicator& comm) {
    std::vector<Floats> data;
    for (int i = 0; i < 10; ++i) data.push_back(values_of(comm.rank(), 3000));
    std::vector<WorkPtr> works;
    for (Floats& values : data)
      works.push_back(comm.start([&values](Communicator& c) {
        c.all_reduce(bytes_of(values), Element::float32, Reduction::sum);
      }));
    comm.barrier();
    for (const WorkPtr& work : works) ASSERT_TRUE(work->is_done());
    for (const WorkPtr& work : works) work->wait();
    for (const Floats& values : data) ASSERT_EQ(values, tree_values(0, 3, 3000));
  });
}

TEST_P(Collectives, WaitingForAStartedCallRethrowsItsError) {
  on_ranks(2, [](Communicator& comm) {
    const WorkPtr work = comm.start([](Communicator& c) {
      Floats one(1);
      c.broadcast(bytes_of(one), 7);
    });
    EXPECT_EQ(message_of([&] { work->wait(); }), "broadcast: there is no rank 7, the group has 2");
    comm.barrier();
  });
}

TEST_P(Collectives, SplitMakesGroupsThatWorkBesideTheWhole) {
  on_ranks(5, [](Communicator& comm) {
    const auto odd = comm.split({3, 1});
    const auto even = comm.split({0, 2, 4});
    const Communicator* mine = comm.rank() % 2 == 1 ? odd.get() : even.get();
    ASSERT_EQ(odd == nullptr, comm.rank() % 2 == 0);
    ASSERT_EQ(even == nullptr, comm.rank() % 2 == 1);
    ASSERT_EQ(mine->size(), comm.rank() % 2 == 1 ? 2 : 3);
    ASSERT_TRUE(comm.rank() != 3 || odd->rank() == 0);
    for (int round = 0; round < 3; ++round) {
      Floats part{static_cast<float>(comm.rank())}, whole = part;
      (odd ? odd : even)->all_reduce(bytes_of(part), Element::float32, Reduction::sum);
      comm.all_reduce(bytes_of(whole), Element::float32, Reduction::sum);
      ASSERT_EQ(part[0], odd ? 4.f : 6.f);
      ASSERT_EQ(whole[0], 10.f);
    }
    comm.barrier();
  });
}

TEST_P(Collectives, WrongArgumentsAreRefusedAndBreakNothing) {
  on_ranks(2, [](Communicator& comm) {
    Floats two(2), three(3);
    EXPECT_EQ(message_of([&] { comm.send(bytes_of(two), 2); }),
              "send: there is no rank 2, the group has 2");
    EXPECT_EQ(message_of([&] { comm.send_receive(bytes_of(two), bytes_of(three), comm.rank()); }),
              fmt::format("send_receive: rank {} is the caller itself", comm.rank()));
    EXPECT_EQ(message_of([&] {
                comm.all_reduce(bytes_of(two).first(6), Element::float32, Reduction::sum);
              }),
              "all_reduce: got 6 bytes, which are not whole elements of float32");
    EXPECT_EQ(message_of([&] { comm.all_gather(bytes_of(two), bytes_of(three)); }),
              "all_gather: all has 12 bytes, expected 16");
    EXPECT_EQ(message_of([&] {
                comm.split({1, 1});
              }),
              "split: expected at least one rank, and each once");
    const TreeNode half{0, 3, bytes_of(std::as_const(two))};
    EXPECT_EQ(message_of([&] {
                comm.tree_sum({&half, 1}, 8, bytes_of(two));
              }),
              "tree_sum: the 1 nodes from 0 to 3 are not the subtrees of that range of 8 shards");
    const TreeNode first{0, 4, bytes_of(std::as_const(two))};
    EXPECT_EQ(message_of([&] {
                comm.tree_sum({&first, 1}, 8, bytes_of(two));
              }),
              "tree_sum: rank 1 has shards 0 to 4, expected some that begin at 4");
    const ShardRange ranges[] = {{0, 4}, {4, 8}};
    EXPECT_EQ(message_of([&] {
                comm.tree_sum({&first, 1}, 8, bytes_of(two), {}, {ranges, 1});
              }),
              "tree_sum: got the ranges of 1 ranks, expected those of 2");
    const TreeNode other{6, 8, bytes_of(std::as_const(two))};
    EXPECT_EQ(message_of([&] {
                comm.tree_sum({&other, 1}, 8, bytes_of(two), {}, ranges);
              }),
              fmt::format("tree_sum: the nodes are shards 6 to 8, the range is {}",
                          comm.rank() == 0 ? "0 to 4" : "4 to 8"));
    comm.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Collectives, ::testing::ValuesIn(world_kinds()), name_of);

}  // namespace
}  // namespace lockstep::comm
