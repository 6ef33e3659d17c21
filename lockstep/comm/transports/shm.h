// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

struct ShmOptions {
  std::string job;  // the same on all ranks and on no other job of this machine: make it random
  int rank = 0;
  int size = 1;
  std::string host = "localhost";
  std::chrono::milliseconds timeout{60'000};  // until all have come

  // For ranks that are part of a larger group: what it calls them, in messages and to these two.
  std::vector<int> names = {};
  // Now and then while a rank waits for `peer`; what it throws ends the call.
  std::function<void(int peer, Deadline deadline, std::string_view operation)> on_wait = {};
  // Wakes a peer that lies down (detail/shm_transport.h) and sleeps elsewhere.
  std::function<void(int peer)> knock = {};
};

// A name for a job that no other has.
std::string random_shm_job();

// Connects the ranks of a group on one host by shared memory, which has no name and goes with the
// last of them, however they end. Throws InvalidArgument, IoError when there is not enough of it,
// Timeout or PeerLost naming a rank that has not come or has gone before all had come.
std::unique_ptr<Transport> connect_shm(const ShmOptions& options);

}  // namespace lockstep::comm
