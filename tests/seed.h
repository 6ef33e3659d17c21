// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::testing {

// LOCKSTEP_SEED, or a random one; printed, so that a run can be repeated.
std::uint64_t seed_of_this_run();

}  // namespace lockstep::testing
