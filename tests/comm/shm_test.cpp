// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/shm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

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

// In a process of its own, whose /dev/shm has one megabyte.
int connect_in_little_memory() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return 77;
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) return 77;
  const std::string message = message_of<IoError>([] { connect_shm({random_job(), 0, 4}); });
  const bool clear = message.starts_with("/dev/shm: shared memory for 4 ranks needs ") &&
                     message.find("1024 KB are free") != std::string::npos;
  if (!clear) fmt::print(stderr, "{}\n", message);
  return clear && std::filesystem::is_empty("/dev/shm") ? 0 : 1;
}

TEST(Shm, TooLittleSharedMemoryIsAnErrorThatSaysHowMuchIsNeeded) {
  const pid_t pid = fork();
  if (pid == 0) _exit(connect_in_little_memory());
  int status = 0;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::comm
