// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/shm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/comm/shm_helpers.h"
#include "tests/comm/worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::message_of;

void mix_memories(const std::string& group, int rank, std::size_t bytes) {
  Communicator comm(connect_shm({group, rank, 2}));
  const std::span<std::byte> shared = comm.allocate(bytes);
  std::vector<std::byte> own(bytes);
  const std::string message = message_of<Aborted>([&] {
    comm.all_reduce(rank == 0 ? shared : std::span(own), Element::float32, Reduction::sum);
  });
  EXPECT_EQ(message,
            "all_reduce: 1 of 2 ranks have their data in the group's memory, expected all or none");
}

TEST(Shm, DataInTheGroupsMemoryOnSomeRanksOnlyIsRefusedOnAll) {
  for (const std::size_t bytes : {20'000, 300'000}) {
    const std::string group = random_group();
    std::jthread other(mix_memories, group, 1, bytes);
    mix_memories(group, 0, bytes);
  }
}

// What both of two ranks say when their calls do not match.
void expect_refused(const std::function<void(Communicator&)>& call, const std::string& expected) {
  const std::string group = random_group();
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({group, rank, 2}));
    comm.barrier();
    EXPECT_EQ(message_of<Aborted>([&] { call(comm); }), expected) << "rank " << rank;
  };
  const std::jthread other(work, 1);
  work(0);
}

TEST(Shm, LengthsThatDifferAreRefusedOnBothRanks) {
  const std::pair<std::size_t, std::size_t> lengths[] = {
      {4, 8}, {1'024, 1'020}, {4, 1'600'000}, {20'000, 40'000}, {1'400'000, 1'600'000}};
  for (const auto& [first, second] : lengths)
    expect_refused(
        [&](Communicator& comm) {
          std::vector<std::byte> data(comm.rank() == 0 ? first : second);
          comm.all_reduce(data, Element::float32, Reduction::sum);
        },
        fmt::format("all_reduce: rank 0 brings {} bytes and rank 1 {} bytes, expected the same of "
                    "all ranks",
                    first, second));
}

TEST(Shm, ABarrierOnOneRankAndAReductionOnTheOtherAreRefused) {
  const auto call = [](Communicator& comm) {
    std::vector<std::byte> data(8);
    if (comm.rank() == 0) comm.all_reduce(data, Element::float32, Reduction::sum);
    comm.barrier();
  };
  const std::string group = random_group();
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({group, rank, 2}));
    EXPECT_EQ(
        message_of<Aborted>([&] { call(comm); }),
        fmt::format("{}: rank 0 brings 8 bytes and rank 1 a barrier, expected the same of all "
                    "ranks",
                    rank == 0 ? "all_reduce" : "barrier"));
  };
  const std::jthread other(work, 1);
  work(0);
}

// Zeros for the range that these give the rank, which may keep them to itself.
void sum_zeros(Communicator& comm, const std::vector<ShardRange>& ranges, bool says,
               std::size_t bytes) {
  const std::vector<std::byte> zeros(bytes);
  std::vector<std::byte> result(bytes);
  std::vector<TreeNode> nodes;
  for (const ShardRange& node : subtrees_in(8, ranges[static_cast<std::size_t>(comm.rank())]))
    nodes.push_back({node.lo, node.hi, zeros});
  comm.tree_sum(nodes, 8, result, {}, says ? std::span(ranges) : std::span<const ShardRange>());
}

TEST(Shm, RangesThatDoNotAgreeAreRefusedOnBothRanks) {
  const std::string expected =
      "tree_sum: rank 0 and rank 1 do not add up the same: their elements, reductions, shards or "
      "ranges differ, or one gives no ranges";
  const std::vector<ShardRange> even{{0, 4}, {4, 8}}, uneven{{0, 3}, {3, 8}};
  for (const std::size_t bytes : {4'096, 20'000, 400'000}) {
    expect_refused(
        [&](Communicator& comm) { sum_zeros(comm, comm.rank() == 0 ? even : uneven, true, bytes); },
        expected);
    expect_refused([&](Communicator& comm) { sum_zeros(comm, even, comm.rank() == 0, bytes); },
                   expected);
  }
}

// What a rank has at a place of a call; no sum of two is exact.
float number_of(int rank, int call, std::size_t i) {
  return 0.1f * static_cast<float>(i % 1013 + 1) + 1.7f * static_cast<float>(rank + 3 * call);
}

void add_once(Communicator& comm, int call, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = number_of(comm.rank(), call, i);
  comm.all_reduce(std::as_writable_bytes(std::span(data)), Element::float32, Reduction::sum);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(data[i], number_of(0, call, i) + number_of(1, call, i)) << i << " of " << count;
}

// Lengths around those of blocks, chunks and stages, from either end, between other calls.
TEST(Shm, TwoRanksAddRightAtEveryLengthAndFromBothEnds) {
  const std::string group = random_group();
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({group, rank, 2}));
    int call = 0;
    for (const std::size_t count :
         {8'192, 8'255, 32'768, 32'769, 65'535, 131'073, 163'841, 400'001, 655'360, 700'003}) {
      add_once(comm, ++call, count);
      add_once(comm, ++call, 7);
      add_once(comm, ++call, count);
      comm.barrier();
      add_once(comm, ++call, count);
    }
  };
  std::jthread other(work, 1);
  work(0);
}

cpu_set_t own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

// The work of a rank whose thread may use these cores only.
void meet_on(const cpu_set_t& cores, const std::string& group, int rank, int size) {
  ASSERT_EQ(sched_setaffinity(0, sizeof cores, &cores), 0);
  Communicator comm(connect_shm({group, rank, size}));
  std::vector<float> data(30'000, 1.f);
  for (int i = 0; i < 50; ++i) {
    comm.barrier();
    comm.all_reduce(std::as_writable_bytes(std::span(data)), Element::float32, Reduction::maximum);
  }
  const cpu_set_t after = own_cores();
  EXPECT_TRUE(CPU_EQUAL(&after, &cores)) << "rank " << rank;
}

TEST(Shm, RanksOnOneCoreGetOnAndKeepTheCoresTheyMayUse) {
  const cpu_set_t all = own_cores();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  for (const cpu_set_t& cores : {one, all})
    for (const int size : {2, 5}) {
      const std::string group = random_group();
      std::vector<std::jthread> ranks;
      for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] { meet_on(cores, group, rank, size); });
    }
}

// Adds up ones in memory that it asks for.
bool adds_up(Communicator& comm) {
  const std::span<std::byte> memory = comm.allocate(16 << 20);
  auto* floats = reinterpret_cast<float*>(memory.data());
  std::fill_n(floats, 30'000, 1.f);
  comm.all_reduce(memory.first(120'000), Element::float32, Reduction::sum);
  return floats[0] == 2.f && floats[29'999] == 2.f && floats[30'000] == 0.f;
}

// Every rank asks for more than is there.
int allocate_in_little_memory() {
  if (!shrink_memory("size=16m")) return 77;
  const std::string group = random_group();
  std::atomic<int> right = 0;
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({group, rank, 2}));
    right += adds_up(comm) ? 1 : 0;
  };
  {
    const std::jthread other(work, 1);
    work(0);
  }
  return right == 2 ? 0 : 1;
}

// A rank that can open no file more.
int allocate_without_files(const std::string& group) {
  Communicator comm(connect_shm({group, 1, 2}));
  leave_files(0);
  return adds_up(comm) ? 0 : 1;
}

TEST(Shm, WhatCannotBeAllocatedForAllIsAllocatedForEach) {
  expect_in_process(allocate_in_little_memory);
}

TEST(Shm, WhatOneRankCannotOpenIsAllocatedForEach) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer opens files to look at what it checks";
#endif
  const std::string group = random_group();
  const pid_t pid = fork();
  if (pid == 0) _exit(allocate_without_files(group));
  {
    Communicator comm(connect_shm({group, 0, 2}));
    EXPECT_TRUE(adds_up(comm));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::comm
