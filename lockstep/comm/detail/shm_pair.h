// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/detail/shm_reduction.h"

namespace lockstep::comm {

// A reduction by two ranks that have one node each, over stages. `met` is called when the other
// rank has come, before anything of the result is written.
void shm_pair_reduce(const ShmCall& call, const TreeCall& tree, ShmProgress& progress,
                     const ShmSignature& signature, const std::function<void()>& met);

}  // namespace lockstep::comm
