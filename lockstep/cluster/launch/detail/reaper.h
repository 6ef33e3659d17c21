// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/process.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// A process that outlives this one for a moment, to end what this one could not: when this one is
// killed, the kernel ends its workers (PR_SET_PDEATHSIG) but not what they have started. That is
// found by its groups, and by a variable of its environment. When this one hangs or is stopped, the
// reaper ends it too. Files that workers leave in their scratch folder go last.
class Reaper {
 public:
  // To be made before there are threads; its beat() called more often than `deadline`. Throws
  // IoError.
  explicit Reaper(std::chrono::milliseconds deadline);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  void add(pid_t group);
  // Before the group's first process is waited for: until then nobody else has its number.
  void remove(pid_t group);
  void beat() const { tell(0); }
  pid_t pid() const { return process_.pid(); }
  // Where somebody has killed it, a new one takes its place: how it ended; else nothing. Throws
  // IoError.
  std::optional<std::string> replace_if_dead();
  // NAME=VALUE, for the environment of all that is to be reaped.
  std::vector<std::string> settings() const;

 private:
  void start();
  void tell(pid_t group) const;
  std::chrono::milliseconds deadline_;
  std::string mark_;
  std::set<pid_t> groups_;
  comm::Socket pipe_;
  Process process_;
};

}  // namespace lockstep::cluster::detail
