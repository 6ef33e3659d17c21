// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// A process that outlives this one for a moment, to end what this one could not: when this one is
// killed, the kernel ends its workers (PR_SET_PDEATHSIG) but not what they have started. That is
// found by its groups, and by a variable of its environment. When this one hangs or is stopped, the
// keeper ends it too.
class Keeper {
 public:
  // To be made before there are threads; reassured more often than `silence`. Throws IoError.
  explicit Keeper(std::chrono::milliseconds silence);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  void add(pid_t group) { tell(group); }
  // Before the group's first process is waited for: until then nobody else has its number.
  void remove(pid_t group) { tell(-group); }
  void reassure() const { tell(0); }
  pid_t pid() const { return pid_; }
  // NAME=VALUE, for the environment of all that is to be kept.
  std::string setting() const;

 private:
  void tell(pid_t group) const;
  std::string mark_;
  comm::Socket pipe_;
  pid_t pid_ = -1;
};

}  // namespace lockstep::cluster::detail
