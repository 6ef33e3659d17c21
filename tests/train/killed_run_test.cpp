// SPDX-License-Identifier: Apache-2.0
// A run that is killed with SIGKILL again and again, and resumed, ends with the bits of one that
// was left alone.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/train/checkpoint.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using testing::small_fit;
using testing::small_images;
using testing::small_net;
using testing::small_trainer;

constexpr const char* kFolderVariable = "LOCKSTEP_KILLED_RUN_FOLDER";

FitResult run_in(const std::string& folder, int threads) {
  FitOptions options = small_fit(20);
  options.checkpoints = folder;
  options.checkpoint_every = 3;
  options.resume = true;
  return small_trainer(small_net(), threads).fit(small_images(100), options);
}

// The program that is killed: this one, started again for this test alone.
TEST(KilledRun, DISABLED_Child) {
  const char* folder = std::getenv(kFolderVariable);
  ASSERT_NE(folder, nullptr);
  const FitResult result = run_in(folder, 2);
  write_file(std::string(folder) + "/result", result.params_sha256);
}

pid_t start_child(const std::string& folder) {
  const std::string program = fs::read_symlink("/proc/self/exe");
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setenv(kFolderVariable, folder.c_str(), 1);
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) ::unsetenv(name);
  ::close(STDOUT_FILENO);
  ::execl(program.c_str(), program.c_str(), "--gtest_filter=KilledRun.DISABLED_Child",
          "--gtest_also_run_disabled_tests", nullptr);
  ::_exit(127);
}

std::int64_t newest_step(const std::string& folder) {
  const std::vector<CheckpointFile> files = list_checkpoints(folder);
  return files.empty() ? 0 : files.back().step;
}

// Kills the child once it has written a checkpoint of `step`; true when it had ended by itself.
bool kill_at(pid_t child, const std::string& folder, std::int64_t step) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (newest_step(folder) < step && std::chrono::steady_clock::now() < deadline) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return false;
}

TEST(KilledRun, EndsWithTheBitsOfOneThatWasLeftAlone) {
  const testing::TemporaryFolder folder("killed_run");
  const std::string killed = folder.path() + "/killed";
  fs::create_directories(killed);
  std::mt19937_64 random(testing::seed_of_this_run());
  int kills = 0;
  for (std::int64_t step = 0; kills < 4; ++kills) {
    step = newest_step(killed) + 1 + static_cast<std::int64_t>(random() % 15);
    if (kill_at(start_child(killed), killed, step)) break;
  }
  EXPECT_GT(kills, 0);
  kill_at(start_child(killed), killed, 1000);
  EXPECT_EQ(read_file(killed + "/result"), run_in(folder.path() + "/whole", 1).params_sha256);
  EXPECT_EQ(newest_step(killed), 80);
}

}  // namespace
}  // namespace lockstep::train
