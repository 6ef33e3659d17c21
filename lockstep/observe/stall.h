// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "lockstep/observe/job_status.h"

namespace lockstep::observe {

// A worker that holds up the others, though it is heard.
struct Stall {
  int rank = 0;             // among the workers
  std::string reason = {};  // "nothing has moved for 5.0 s: worker 0 waits for it in tree_sum"
};

// Where some worker has waited for another for `longest` or more: the one that waits for nobody
// itself and holds up most; where all wait for each other, the one that most wait for.
std::optional<Stall> find_stall(std::span<const MemberStatus> members,
                                std::chrono::milliseconds longest);

}  // namespace lockstep::observe
