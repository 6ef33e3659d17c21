// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/transports/in_process.h"

namespace lockstep::testing {

// Runs `work` with the communicator of each of so many ranks of one host, all at once.
template <class Work>
void as_ranks(int count, const Work& work) {
  comm::InProcessGroup group(std::vector<std::string>(static_cast<std::size_t>(count), "here"));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&group, &work, rank] {
      comm::Communicator communicator(group.connect(rank));
      work(communicator);
    });
}

}  // namespace lockstep::testing
