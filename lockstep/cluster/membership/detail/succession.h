// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/detail/generation_service.h"
#include "lockstep/cluster/membership/detail/roster.h"

namespace lockstep::cluster::detail {

// Of a coordinator in whose place another one may be some day, or that is in the place of another
// one itself: what is kept, and who has still to come. Without a leadership, nothing is.
class Succession {
 public:
  // All outlive it.
  Succession(const CoordinatorOptions& options, Roster& roster, GenerationService& generations)
      : options_(options), roster_(roster), generations_(generations) {}

  void take(std::unique_ptr<Leadership> leadership) { leadership_ = std::move(leadership); }
  const Leadership* leadership() const { return leadership_.get(); }
  // Throws Deposed.
  void check_valid(const comm::Endpoint& endpoint) const;
  // What was decided, and where the job has failed, why. Throw Deposed.
  void record(bool tolerates_lost_servers, const std::string& failure) const;
  void record(const std::string& name, const RegistryEntry& entry) const;

  // The members that the one before knew have some time to come.
  void await_members();
  bool awaits_members() const;
  // Whether that time is over: once.
  bool is_time_over();
  std::string why_lost() const;
  std::vector<std::int64_t> missing_servers() const;
  // Whether one whose connection is gone may be on its way to us again: while we were held up it
  // may have given up a connection that we hear of only now.
  bool may_return(const Participant& one) const;
  // False: it is not in the job any more.
  bool readmit(Participant& one, const Rejoin& rejoin);

 private:
  std::chrono::milliseconds rejoin_time() const;
  void readmit_server(Participant& one, const Rejoin& rejoin);

  const CoordinatorOptions& options_;
  Roster& roster_;
  GenerationService& generations_;
  std::unique_ptr<Leadership> leadership_;
  comm::Deadline rejoin_deadline_ = comm::Deadline::max();
};

}  // namespace lockstep::cluster::detail
