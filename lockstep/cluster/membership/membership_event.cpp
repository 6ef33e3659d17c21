// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/membership_event.h"

#include <fmt/core.h>

namespace lockstep::cluster {

std::string to_string(const MembershipEvent& event) {
  const std::string who = fmt::format("worker {}", event.member);
  if (event.kind == "lost") return fmt::format("{} is lost: {}", who, event.why);
  if (event.kind == "expelled") return fmt::format("{} is put out: {}", who, event.why);
  if (event.kind == "left") return fmt::format("{} has left", who);
  if (event.kind == "joined")
    return fmt::format("{} joins in generation {}", who, event.generation);
  if (event.kind == "waiting") return fmt::format("the job waits for workers: {}", event.why);
  if (event.kind == "resized")
    return fmt::format("the job is to have {} worker{}", event.workers,
                       event.workers == 1 ? "" : "s");
  return fmt::format("generation {}: {} worker{} go{} on after step {} ({:.2f} s)",
                     event.generation, event.workers, event.workers == 1 ? "" : "s",
                     event.workers == 1 ? "es" : "", event.step,
                     static_cast<double>(event.milliseconds) / 1000.0);
}

}  // namespace lockstep::cluster
