// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/thread_team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

TEST(ThreadTeam, RunsEveryRoundOnceInEachThread) {
  for (int size : {1, 2, 5}) {
    ThreadTeam team(size);
    std::vector<int> counts(static_cast<std::size_t>(size), 0);
    for (int round = 0; round < 1000; ++round)
      team.run([&](int thread) { ++counts[static_cast<std::size_t>(thread)]; });
    for (int count : counts) EXPECT_EQ(count, 1000);
  }
}

// Whether every thread of this process but the caller's sleeps (proc(5): the state is behind the
// name, which is in brackets).
bool others_sleep() {
  const std::string own = std::to_string(::gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(task.path() / "stat"), line);
    const std::size_t bracket = line.rfind(')');
    if (task.path().filename() != own && bracket != std::string::npos && line[bracket + 2] != 'S')
      return false;
  }
  return true;
}

bool wait_until_others_sleep() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!others_sleep())
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

TEST(ThreadTeam, SleepersWakeUp) {
  ThreadTeam team(3);
  std::atomic<int> calls = 0;
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(wait_until_others_sleep());
    team.run([&](int thread) {
      const bool slept = thread != 2 || wait_until_others_sleep();
      EXPECT_TRUE(slept);
      ++calls;
    });
  }
  EXPECT_EQ(calls, 9);
}

TEST(ThreadTeam, RethrowsTheLowestThreadsErrorAndGoesOn) {
  ThreadTeam team(4);
  const auto fail = [](int thread) {
    if (thread > 0) throw InvalidArgument("thread {}", thread);
  };
  try {
    team.run(fail);
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "thread 1");
  }
  std::atomic<int> calls = 0;
  team.run([&](int) { ++calls; });
  EXPECT_EQ(calls, 4);
}

// Leaves room for the stacks of a few threads.
void limit_memory() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{100} << 20);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

[[noreturn]] void start_too_many_threads() {
  limit_memory();
  ::alarm(20);
  try {
    const ThreadTeam team(100000);
  } catch (const IoError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(7);
  }
  std::exit(0);
}

TEST(ThreadTeam, MoreThreadsThanTheSystemHasAreAnErrorNotAWaitWithoutEnd) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer ends the process when memory for a thread's shadow is short";
#endif
  EXPECT_EXIT(start_too_many_threads(), ::testing::ExitedWithCode(7),
              "threads: cannot start number [0-9]+ of 100000: ");
}

TEST(ThreadTeam, NeedsAThread) { EXPECT_THROW(ThreadTeam(0), InvalidArgument); }

}  // namespace
}  // namespace lockstep
