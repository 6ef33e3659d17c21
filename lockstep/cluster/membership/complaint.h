// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cluster {

// What a member of a job says of another one whose part it missed.
struct Complaint {
  std::int64_t by = 0;  // a member's id; -1: it is the coordinator that misses it
  std::int64_t of = 0;  // the one that is missed
  std::string text = {};
};

}  // namespace lockstep::cluster
