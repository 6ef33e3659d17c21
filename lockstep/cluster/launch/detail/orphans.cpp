// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/orphans.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "lockstep/base/process_stat.h"
#include "lockstep/comm/transport.h"

namespace lockstep::cluster::detail {
namespace {

constexpr auto kLongest = std::chrono::seconds(3);

// Throws nothing: it is for destructors.
std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (const pid_t pid = std::atoi(entry->path().filename().c_str()); pid > 0)
      found.push_back(pid);
  return found;
}

// 0 when it is gone.
pid_t parent_of(pid_t process) {
  const std::string line = process_stat(process);
  return line.empty() ? 0 : static_cast<pid_t>(std::atoi(line.c_str() + 2));
}

std::vector<pid_t> children_beside(const std::vector<pid_t>& known) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes())
    if (parent_of(pid) == ::getpid() && std::find(known.begin(), known.end(), pid) == known.end())
      found.push_back(pid);
  return found;
}

bool is_marked(pid_t pid, const std::string& mark) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  return environment.find(mark) != std::string::npos;
}

bool kill_marked_once(const std::string& mark) {
  bool found = false;
  for (const pid_t pid : all_processes())
    if (is_marked(pid, mark)) found = ::kill(pid, SIGKILL) == 0 || found;
  return found;
}

}  // namespace

void become_subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool is_stopped(pid_t process) { return process_stat(process).starts_with('T'); }

bool is_gone(pid_t process) {
  const std::string state = process_stat(process);
  return state.empty() || state.starts_with('Z') || state.starts_with('X');
}

void reap_orphans(const std::vector<pid_t>& known) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (std::find(known.begin(), known.end(), info.si_pid) != known.end()) return;
    ::waitpid(info.si_pid, nullptr, 0);
  }
}

// When one ends, what it has started falls to us, and is found the next time.
void kill_orphans(const std::vector<pid_t>& known) {
  const auto end = comm::Clock::now() + kLongest;
  std::vector<pid_t> found;
  while (!(found = children_beside(known)).empty() && comm::Clock::now() < end) {
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    for (const pid_t pid : found) ::waitpid(pid, nullptr, WNOHANG);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Again and again, since one that is being killed may just have started another.
void kill_marked(const std::string& mark) {
  const auto end = comm::Clock::now() + kLongest;
  while (kill_marked_once(mark) && comm::Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace lockstep::cluster::detail
