// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/membership.h"

namespace lockstep::cluster {

// How far a worker has come. Workers of one job with equal progress have equal states, since steps
// are functions; the further one has what the other lacks.
struct Progress {
  std::int64_t step = -1;       // the last one committed; -1: it has no state yet
  std::int64_t evaluated = -1;  // the step of the last evaluation
  auto operator<=>(const Progress&) const = default;
  bool has_state() const { return step >= 0; }

  std::string to_text() const;
  // Throws Corrupt.
  static Progress from_text(const std::string& text);
};

// How the workers of a new generation come to one state.
struct Alignment {
  int source = 0;                   // the first rank of those that are furthest
  std::vector<bool> receives = {};  // by rank: it takes the source's state
  bool has_newcomers = false;       // some had none
  bool is_needed() const;
};

// Of their progress, by rank. Throws InvalidArgument when none of them has a state.
Alignment align(std::span<const Progress> all);

// A worker's way from one generation into the next. It makes no calls: who drives it does, a job as
// well as a simulation.
//
//   computing --fail()--> reporting --begin()--> connecting --align_with()--> aligning
//       ^                     ^                      |                           |
//       |                     +-------- fail() ------+---------- fail() ---------+
//       +------------------------------- aligned() ------------------------------+
class GenerationMember {
 public:
  enum class State { computing, reporting, connecting, aligning, over };

  // A worker of the first generation computes; one that joins has to report first.
  GenerationMember(std::int64_t id, const Membership& first);
  explicit GenerationMember(std::int64_t id) : id_(id) {}

  State state() const { return state_; }
  std::int64_t id() const { return id_; }
  const Membership& membership() const { return membership_; }
  std::int64_t generation() const { return membership_.generation; }
  int rank() const { return membership_.rank_of(id_); }

  // Whether a message of this generation is for this worker: those of any other are refused.
  bool accepts(std::int64_t generation) const;
  // The step, or the way into a generation, has failed, or the coordinator wants another one.
  void fail();
  // Throws Corrupt for a generation that is not newer, or that this worker is not in.
  void begin(const Membership& membership);
  // All have said where they are.
  Alignment align_with(std::span<const Progress> all);
  // The states are the same everywhere, as far as this worker knows.
  void aligned();
  void end() { state_ = State::over; }

 private:
  std::int64_t id_;
  State state_ = State::reporting;
  Membership membership_ = {};
};

}  // namespace lockstep::cluster
