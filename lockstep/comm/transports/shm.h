// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

struct ShmOptions {
  std::string group;  // its name: the same on all ranks and in no other group of this machine
  int rank = 0;
  int size = 1;
  std::string host = "localhost";
  std::chrono::milliseconds timeout{60'000};  // until all have come

  // For ranks that are part of a larger group: what it calls them, in messages and errors.
  std::vector<int> names = {};
  // Every now and then until all have come; what it throws ends that.
  std::function<void()> check = {};
  // Now and then while a rank waits for `peer`; what it throws ends the call.
  std::function<void(int peer, Deadline deadline, std::string_view operation)> on_wait = {};
  // Wakes a peer that lies down (detail/shm_transport.h) and sleeps elsewhere.
  std::function<void(int peer)> wake = {};
  std::shared_ptr<Meter> meter = nullptr;  // of this process; null: nothing is measured
};

// A name for a group that no other has.
std::string random_shm_name();

// Connects the ranks of a group on one host by shared memory, which has no name and goes with the
// last of them, however they end. Throws InvalidArgument, IoError when there is not enough of it,
// Timeout or PeerLost naming a rank that has not come or has gone before all had come.
std::unique_ptr<Transport> connect_shm(const ShmOptions& options);
// The same for ranks that can tell each other the name that the first of them makes up.
std::unique_ptr<Transport> connect_shm_group(const Bootstrap& bootstrap);

}  // namespace lockstep::comm
