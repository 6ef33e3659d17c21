// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "lockstep/comm/algorithms/ring.h"

// Several rings share the work: one leads forward, one back, so that both directions of every link
// are busy; with more ranks, others take larger steps (any that has no divisor in common with the
// number of ranks meets them all), so that more links are.
namespace lockstep::comm {

void multi_ring_all_reduce(const Call& call, std::span<std::byte> data, Element element,
                           Reduction reduction) {
  constexpr std::size_t kMost = 4;
  std::vector<int> steps;
  for (int step = 1; step <= call.size() / 2 && steps.size() < kMost; ++step) {
    if (std::gcd(step, call.size()) != 1) continue;
    steps.push_back(step);
    steps.push_back(-step);
  }
  if (!steps.empty()) reduce_on_rings(call, steps, data, element, reduction);
}

}  // namespace lockstep::comm
