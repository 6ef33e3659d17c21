// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/cluster/membership/detail/generation_service.h"
#include "lockstep/cluster/membership/detail/roster.h"

namespace lockstep::cluster::detail {

// The coordinator's side of Rendezvous::all_gather: bytes of the members of a role, passed on when
// all have given theirs.
class GatherService {
 public:
  struct Calls {
    std::function<void(const comm::MessageEvent& request, const comm::Payload& reply)> reply;
    std::function<void(const Failure& failure)> fail;  // the job cannot go on
    // This one did not do its part in time.
    std::function<void(Participant& missing, const std::string& text)> miss;
  };
  // `roster` and `generations` outlive it; `place` is where the coordinator listens.
  GatherService(Roster& roster, const GenerationService& generations, comm::Endpoint place,
                Calls calls)
      : roster_(roster),
        generations_(generations),
        place_(std::move(place)),
        calls_(std::move(calls)) {}

  // All members are there: what they have given meanwhile is passed on.
  void begin();
  void take(Participant& one, const comm::MessageEvent& request, const Gather& gather);
  // Those of the lost one's role can never be whole again.
  void deny(const Participant& lost, const std::string& text);
  void check_deadlines();

 private:
  void answer(const comm::MessageEvent& request, const Message& message) const;
  bool has_generations(Role role) const;
  // Those who gather together, by rank.
  std::vector<Participant*> group_of(Role role) const;
  void pass_on(Role role);
  void miss(Participant& missing, const Participant& waiting);

  Roster& roster_;
  const GenerationService& generations_;
  comm::Endpoint place_;
  Calls calls_;
  bool has_begun_ = false;
};

}  // namespace lockstep::cluster::detail
