// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

using namespace std::chrono_literals;

// The ends of the group's socket that rank 0 has, before all ranks have come.
inline int ends_of(const std::string& group) {
  std::ifstream file("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += line.ends_with("@lockstep-" + group) ? 1 : 0;
  return count;
}

template <class F>
void await(const F& is_so) {
  const Deadline deadline = Clock::now() + 30s;
  while (!is_so()) {
    if (Clock::now() > deadline) throw std::runtime_error("what was waited for did not come");
    std::this_thread::sleep_for(5ms);
  }
}

inline void await_ends(const std::string& group, int count) {
  await([&] { return ends_of(group) >= count; });
}

// In a process of its own.
inline bool shrink_memory(const char* size) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, size) == 0;
}

// The process may open so many files more.
inline void leave_files(std::size_t count) {
  std::vector<int> files;
  while (files.size() <= count) files.push_back(open("/dev/null", O_RDONLY));
  const auto most = static_cast<rlim_t>(files.back());
  const rlimit limit{most, most};
  setrlimit(RLIMIT_NOFILE, &limit);
  for (const int file : files) close(file);
}

inline void expect_in_process(int (*body)()) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(status, 0);
}

}  // namespace lockstep::comm
