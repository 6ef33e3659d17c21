// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/shm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/comm/worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::message_of;

TEST(Shm, ARankThatDoesNotComeIsNamedAndNothingStaysBehind) {
  const std::string job = random_job();
  EXPECT_EQ(message_of<Timeout>([&] {
              connect_shm({job, 0, 2, "here", 50ms});
            }),
            "connect: rank 1 on here has not come in time");
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/lockstep-" + job));
  EXPECT_EQ(message_of<Timeout>([&] {
              connect_shm({job, 1, 2, "here", 50ms});
            }),
            "connect: rank 0 on here has not made /dev/shm/lockstep-" + job + " in time");
}

TEST(Shm, TheNameOfALivingGroupIsGone) {
  const std::string job = random_job();
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({job, rank, 2}));
    comm.barrier();
    EXPECT_FALSE(std::filesystem::exists("/dev/shm/lockstep-" + job));
    comm.barrier();
  };
  std::jthread other(work, 1);
  work(0);
}

TEST(Shm, WrongOptionsAreRefused) {
  EXPECT_EQ(message_of([] { connect_shm({"job", 2, 2}); }), "shm: got rank 2 of 2 ranks");
  EXPECT_EQ(message_of([] {
              connect_shm({"a/b", 0, 1});
            }),
            "shm: the job's name is 'a/b', expected 1 to 200 characters without a slash");
}

TEST(Shm, AJobThatExistsIsRefused) {
  const std::string job = random_job();
  close(shm_open(("/lockstep-" + job).c_str(), O_CREAT | O_RDWR, 0600));
  EXPECT_EQ(message_of<IoError>([&] {
              connect_shm({job, 0, 1});
            }),
            "/dev/shm/lockstep-" + job + ": cannot be made: File exists");
  EXPECT_TRUE(remove_shm(job));
  EXPECT_FALSE(remove_shm(job));
}

TEST(Shm, DataInTheGroupsMemoryOnSomeRanksOnlyIsRefusedOnAll) {
  const std::string job = random_job();
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({job, rank, 2}));
    const std::span<std::byte> shared = comm.allocate(20'000);
    std::vector<std::byte> own(20'000);
    const std::string message = message_of<Aborted>([&] {
      comm.all_reduce(rank == 0 ? shared : std::span(own), Element::float32, Reduction::sum);
    });
    EXPECT_EQ(
        message,
        "all_reduce: 1 of 2 ranks have their data in the group's memory, expected all or none");
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

// Every rank asks for more than is there and adds up ones in what it gets.
int allocate_in_little_memory() {
  if (!shrink_memory("size=16m")) return 77;
  const std::string job = random_job();
  std::atomic<int> right = 0;
  const auto work = [&](int rank) {
    Communicator comm(connect_shm({job, rank, 2}));
    const std::span<std::byte> memory = comm.allocate(16 << 20);
    auto* floats = reinterpret_cast<float*>(memory.data());
    std::fill_n(floats, 30'000, 1.f);
    comm.all_reduce(memory.first(120'000), Element::float32, Reduction::sum);
    right += floats[0] == 2.f && floats[29'999] == 2.f && floats[30'000] == 0.f ? 1 : 0;
  };
  {
    const std::jthread other(work, 1);
    work(0);
  }
  return right == 2 ? 0 : 1;
}

int connect_in_little_memory() {
  if (!shrink_memory("size=1m")) return 77;
  const std::string message = message_of<IoError>([] { connect_shm({random_job(), 0, 4}); });
  const bool clear = message.starts_with("/dev/shm: shared memory for 4 ranks needs ") &&
                     message.find("1024 KB are free") != std::string::npos;
  if (!clear) fmt::print(stderr, "{}\n", message);
  return clear && std::filesystem::is_empty("/dev/shm") ? 0 : 1;
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

TEST(Shm, WhatCannotBeAllocatedForAllIsAllocatedForEach) {
  expect_in_process(allocate_in_little_memory);
}

}  // namespace
}  // namespace lockstep::comm
