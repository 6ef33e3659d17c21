// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/train/snapshot.h"

namespace lockstep::train::detail {

// What one worker gives another that is behind, or new: the run's state between two steps.
struct RunState : Snapshot {
  std::string run = "{}";    // JSON: what is no part of the snapshot
  std::string history = {};  // all of it, a line for each evaluation
};

std::string to_bytes(const RunState& state);
// Throws Corrupt.
RunState run_state_from(const std::string& bytes);

}  // namespace lockstep::train::detail
