// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/transports/in_process.h"

namespace lockstep::testing {

// Runs `work` with the communicator of each rank, on the host of that place, all at once.
template <class Work>
void as_ranks(const std::vector<std::string>& hosts, const Work& work) {
  comm::InProcessGroup group(hosts);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
    threads.emplace_back([&group, &work, rank] {
      comm::Communicator communicator(group.connect(rank));
      work(communicator);
    });
}

// The same, of so many ranks of one host.
template <class Work>
void as_ranks(int count, const Work& work) {
  as_ranks(std::vector<std::string>(static_cast<std::size_t>(count), "here"), work);
}

}  // namespace lockstep::testing
