// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/shm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cluster/child.h"
#include "tests/comm/worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::message_of;

// The ends of the job's socket that rank 0 has, before all ranks have come.
int ends_of(const std::string& job) {
  std::ifstream file("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.ends_with("@lockstep-" + job) ? 1 : 0;
  return count;
}

void await_ends(const std::string& job, int count) {
  while (ends_of(job) < count) std::this_thread::sleep_for(5ms);
}

TEST(Shm, ARankThatDoesNotComeIsNamed) {
  const std::string job = random_job();
  EXPECT_EQ(message_of<Timeout>([&] {
              connect_shm({job, 0, 2, "here", 50ms});
            }),
            "connect: rank 1 on here has not come in time");
  EXPECT_EQ(message_of<Timeout>([&] {
              connect_shm({job, 1, 2, "here", 50ms});
            }),
            "connect: rank 0 on here has not come in time");
}

// Ranks 0 and 1 wait for rank 2, and one of them is killed.
std::string heard_by_the_other(int victim) {
  const std::string job = random_job();
  std::vector<lockstep::testing::Child> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&] {
      connect_shm({job, rank, 3, "here", 60s});
      return std::string("connected");
    });
  await_ends(job, 2);
  std::this_thread::sleep_for(300ms);  // they have said who they are
  ranks[static_cast<std::size_t>(victim)].signal(SIGKILL);
  return ranks[static_cast<std::size_t>(1 - victim)].result(20s);
}

TEST(Shm, ARankThatIsKilledWhileOthersComeIsNamedAtOnce) {
  EXPECT_EQ(heard_by_the_other(0),
            "PeerLost: connect: rank 0 on here was lost: it ended before all had come");
  EXPECT_EQ(heard_by_the_other(1),
            "PeerLost: connect: rank 1 on here was lost: it ended before all had come");
}

TEST(Shm, WhatRankZeroGivesUpForIsHeardByTheOthers) {
  const std::string job = random_job();
  const std::string missed = "connect: rank 2 on here has not come in time";
  std::jthread first([&] {
    EXPECT_EQ(message_of<Timeout>([&] { connect_shm({job, 0, 3, "here", 2s}); }), missed);
  });
  EXPECT_EQ(message_of<Timeout>([&] { connect_shm({job, 1, 3, "here", 60s}); }), missed);
}

TEST(Shm, WrongOptionsAreRefused) {
  EXPECT_EQ(message_of([] { connect_shm({"job", 2, 2}); }), "shm: got rank 2 of 2 ranks");
  EXPECT_EQ(message_of([] {
              connect_shm({"", 0, 1});
            }),
            "shm: the job's name is '', expected 1 to 80 characters");
}

TEST(Shm, AJobThatExistsIsRefused) {
  const std::string job = random_job();
  const std::jthread other([&] { connect_shm({job, 0, 2}); });
  await_ends(job, 1);
  EXPECT_EQ(message_of<IoError>([&] {
              connect_shm({job, 0, 2});
            }),
            "shm: job '" + job + "': cannot be met: Address already in use");
  connect_shm({job, 1, 2});
}

TEST(Shm, RanksThatDoNotAgreeOnTheirNumberAreRefused) {
  const std::string job = random_job();
  const std::jthread other([&] {
    EXPECT_EQ(message_of<PeerLost>([&] {
                connect_shm({job, 0, 2, "here"});
              }),
              "connect: rank 1 on here was lost: it ended before all had come");
  });
  const std::string message = message_of<InvalidArgument>([&] { connect_shm({job, 1, 3}); });
  EXPECT_TRUE(message.starts_with("shm: rank 0 has 2 ranks and ")) << message;
}

void mix_memories(const std::string& job, int rank, std::size_t bytes) {
  Communicator comm(connect_shm({job, rank, 2}));
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
    const std::string job = random_job();
    std::jthread other(mix_memories, job, 1, bytes);
    mix_memories(job, 0, bytes);
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
  const std::string job = random_job();
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({job, rank, 2}));
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
void meet_on(const cpu_set_t& cores, const std::string& job, int rank, int size) {
  ASSERT_EQ(sched_setaffinity(0, sizeof cores, &cores), 0);
  Communicator comm(connect_shm({job, rank, size}));
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
      const std::string job = random_job();
      std::vector<std::jthread> ranks;
      for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] { meet_on(cores, job, rank, size); });
    }
}

// In a process of its own.
bool shrink_memory(const char* size) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, size) == 0;
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
  const std::string job = random_job();
  std::atomic<int> right = 0;
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({job, rank, 2}));
    right += adds_up(comm) ? 1 : 0;
  };
  {
    const std::jthread other(work, 1);
    work(0);
  }
  return right == 2 ? 0 : 1;
}

// A rank that can open no file more.
int allocate_without_files(const std::string& job) {
  Communicator comm(connect_shm({job, 1, 2}));
  const int next = open("/dev/null", O_RDONLY);
  const rlimit limit{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
  setrlimit(RLIMIT_NOFILE, &limit);
  close(next);
  return adds_up(comm) ? 0 : 1;
}

int connect_in_little_memory() {
  if (!shrink_memory("size=1m")) return 77;
  const std::string job = random_job();
  std::atomic<int> clear = 0;
  const auto work = [&](int rank) {
    const std::string message = message_of<IoError>([&] { connect_shm({job, rank, 4}); });
    const bool good = message.starts_with("/dev/shm: shared memory for 4 ranks needs ") &&
                      message.find("1024 KB are free") != std::string::npos;
    if (!good) fmt::print(stderr, "{}: {}\n", rank, message);
    clear += good ? 1 : 0;
  };
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(work, rank);
  }
  return clear == 4 ? 0 : 1;
}

// Whenever it is killed, there is nothing that could stay behind.
int look_for_names() {
  if (!shrink_memory("size=64m")) return 77;
  const std::string job = random_job();
  const std::jthread first([&] { connect_shm({job, 0, 3}); });
  const std::jthread second([&] { connect_shm({job, 1, 3}); });
  await_ends(job, 2);
  const bool empty = std::filesystem::is_empty("/dev/shm");
  connect_shm({job, 2, 3});
  return empty && std::filesystem::is_empty("/dev/shm") ? 0 : 1;
}

void expect_in_process(int (*body)()) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(status, 0);
}

TEST(Shm, TooLittleSharedMemoryIsAnErrorThatSaysHowMuchIsNeeded) {
  expect_in_process(connect_in_little_memory);
}

TEST(Shm, NothingInSharedMemoryHasANameWhileRanksConnect) { expect_in_process(look_for_names); }

TEST(Shm, WhatCannotBeAllocatedForAllIsAllocatedForEach) {
  expect_in_process(allocate_in_little_memory);
}

TEST(Shm, WhatOneRankCannotOpenIsAllocatedForEach) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer opens files to look at what it checks";
#endif
  const std::string job = random_job();
  const pid_t pid = fork();
  if (pid == 0) _exit(allocate_without_files(job));
  {
    Communicator comm(connect_shm({job, 0, 2}));
    EXPECT_TRUE(adds_up(comm));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::comm
