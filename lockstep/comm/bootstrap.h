// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/meter.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm {

// What a transport between hosts needs to connect a group: who is in it, and a way to tell each
// other a few bytes before there is a transport. cluster/membership/rendezvous.h makes one.
struct Bootstrap {
  int rank = 0;
  std::vector<std::string> hosts;     // by rank; equal names share a machine and its memory
  std::string address = "127.0.0.1";  // this host's, at which the others reach it
  std::string secret;
  std::chrono::milliseconds timeout{30'000};
  // Every rank gives bytes and gets those of all, in order of rank.
  std::function<std::vector<std::string>(const std::string& bytes)> all_gather;

  // A folder in /dev/shm for files that others may see for a moment; whoever started the job
  // removes it, also when this process is killed. It need not be there. Empty: there is none.
  std::string scratch = {};
  PortRange ports = {};                    // that this rank may listen at
  std::shared_ptr<Meter> meter = nullptr;  // of this process; null: nothing is measured

  // For ranks that are part of a larger group: what it calls them, in messages and errors.
  std::vector<int> names = {};
  // Every now and then while the group connects; what it throws ends that.
  std::function<void()> check = {};

  int size() const { return static_cast<int>(hosts.size()); }
  int name(int of) const { return names.empty() ? of : names[static_cast<std::size_t>(of)]; }
};

}  // namespace lockstep::comm
