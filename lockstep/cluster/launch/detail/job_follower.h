// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/membership/stored_job.h"

namespace lockstep::cluster::detail {

// Of a launcher in whose place another member coordinates the job: what it hears of that by the
// store, and what it has to say to whoever it is. For one thread.
class JobFollower {
 public:
  struct Calls {
    // Whether a coordinator answers there.
    std::function<bool(const comm::Endpoint& leader)> answers;
    // This worker is to leave. Throws Error where nobody heard it, or it cannot leave yet.
    std::function<void(const comm::Endpoint& leader, std::int64_t id)> dismiss;
  };
  enum class State {
    goes_on,
    over,     // as the record says
    failed,   // nobody has coordinated it for longer than `patience`
    unknown,  // the store was not reached, no worker is left, and no coordinator answers
  };
  struct News {
    State state = State::goes_on;
    std::optional<JobRecord> record = {};
    std::string line = {};  // for people; empty: nothing new
  };

  JobFollower(StoredJob job, std::chrono::milliseconds patience, Calls calls);

  // A store that does not answer says nothing about the job: it goes on while its workers do, or
  // the coordinator that was known last.
  News look(comm::Deadline now, bool has_workers);
  // Says it again where nobody has heard it; the record says who has been.
  void release(const std::vector<std::int64_t>& ids, comm::Deadline now);

 private:
  void ask_store(comm::Deadline now, News& news);
  bool is_heard_otherwise(bool has_workers) const;
  bool is_leaving(std::int64_t id) const;

  StoredJob job_;
  std::chrono::milliseconds patience_;
  Calls calls_;
  std::optional<JobRecord> record_ = {};  // the last
  std::optional<Leader> leader_ = {};
  bool is_cut_off_ = false;
  std::optional<comm::Deadline> heard_ = {};
  comm::Deadline next_release_ = {};
};

}  // namespace lockstep::cluster::detail
