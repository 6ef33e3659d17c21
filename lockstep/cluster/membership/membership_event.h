// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

namespace lockstep::cluster {

// What has happened to the members of a job that survives losses.
struct MembershipEvent {
  std::int64_t number = 0;   // from 1
  std::int64_t unix_ms = 0;  // when, by the coordinator's clock
  // "joined"; "lost": it has ended; "expelled": it was put out, and may still be there; "left": as
  // it was asked to; "waiting": for more workers; "resized": so many workers are wanted from now
  // on; "generation": one has begun.
  std::string kind = {};
  std::int64_t member = -1;       // its id; -1: none in particular
  std::string host = {};          // its own
  std::string why = {};           // of a generation: why the one before it ended
  std::int64_t generation = 0;    // the one that began, or in which it happened
  std::int64_t step = -1;         // the last one that was committed; -1: not told
  std::int64_t workers = 0;       // of the generation, or wanted
  std::int64_t milliseconds = 0;  // from the reason for a generation to its beginning
  auto fields() {
    return std::tie(number, unix_ms, kind, member, host, why, generation, step, workers,
                    milliseconds);
  }
};

// One line for people: "worker 2 is lost: ..."
std::string to_string(const MembershipEvent& event);

}  // namespace lockstep::cluster
