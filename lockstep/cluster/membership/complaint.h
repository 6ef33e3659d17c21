// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cluster {

// What a member of a job says of another one whose part it missed.
struct Complaint {
  int by = 0;    // -1: it is the coordinator that misses it
  int rank = 0;  // the one that is missed
  std::string text = {};
};

}  // namespace lockstep::cluster
