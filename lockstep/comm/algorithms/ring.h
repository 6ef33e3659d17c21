// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/algorithms/call.h"

namespace lockstep::comm {

// The order of the sums depends on the number of ranks, and on nothing else.
void ring_all_reduce(const Call& call, std::span<std::byte> data, Element element,
                     Reduction reduction);
// Several rings at once.
void multi_ring_all_reduce(const Call& call, std::span<std::byte> data, Element element,
                           Reduction reduction);

// Rings are given by the step from a rank to the next one; each works on its share of the data.
void reduce_on_rings(const Call& call, std::span<const int> steps, std::span<std::byte> data,
                     Element element, Reduction reduction);

}  // namespace lockstep::comm
