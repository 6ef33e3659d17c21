// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/adopted.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "lockstep/comm/transport.h"

namespace lockstep::cluster::detail {
namespace {

constexpr auto kLongest = std::chrono::seconds(3);

// 0 when it is gone.
pid_t parent_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // after it: a letter, the parent
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return 0;
  return static_cast<pid_t>(std::atoi(line.c_str() + name_end + 4));
}

std::vector<pid_t> children_beside(const std::vector<pid_t>& known) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0 || parent_of(name) != ::getpid())
      continue;
    const pid_t pid = std::stoi(name);
    if (std::find(known.begin(), known.end(), pid) == known.end()) found.push_back(pid);
  }
  return found;
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void reap_adopted(const std::vector<pid_t>& known) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (std::find(known.begin(), known.end(), info.si_pid) != known.end()) return;
    ::waitpid(info.si_pid, nullptr, 0);
  }
}

// When one ends, what it has started falls to us, and is found the next time.
void end_adopted(const std::vector<pid_t>& known) {
  const auto end = comm::Clock::now() + kLongest;
  std::vector<pid_t> found;
  while (!(found = children_beside(known)).empty() && comm::Clock::now() < end) {
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    for (const pid_t pid : found) ::waitpid(pid, nullptr, WNOHANG);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace lockstep::cluster::detail
