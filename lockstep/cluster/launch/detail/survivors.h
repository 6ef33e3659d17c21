// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "lockstep/cluster/launch/detail/restarts.h"
#include "lockstep/cluster/membership/membership_event.h"

namespace lockstep::cluster::detail {

// What a launcher knows of the workers of a job that survives losses: who is no member yet, who is
// one no more, and what the end of each means.
class Survivors {
 public:
  explicit Survivors(int max_restarts) : restarts_(max_restarts) {}

  Restarts& restarts() { return restarts_; }
  void add_late(std::int64_t id) { late_.insert(id), ever_late_.insert(id); }
  bool is_late(std::int64_t id) const { return late_.contains(id); }
  // It ended before it was a member.
  bool was_late(std::int64_t id) const { return ever_late_.contains(id); }
  bool is_released(std::int64_t id) const { return released_.contains(id); }
  // Put out, or asked to leave.
  bool is_going(std::int64_t id) const { return expelled_.contains(id) || released_.contains(id); }
  // Members that came by themselves.
  std::int64_t guests() const { return std::ssize(guests_); }

  // Whether its process has to be ended: it was put out, and may be stopped.
  bool take(const MembershipEvent& event);

  // Why it was put out; empty: it was not.
  std::string why_expelled(std::int64_t id) const;

  // Whether the job can do without a worker that ended like this.
  bool can_do_without(const MemberEnd& end, bool survives);
  // Whether another one is to take its place.
  bool wants_replacement(const MemberEnd& end) const { return !released_.contains(end.id); }

 private:
  void join(std::int64_t id);

  Restarts restarts_;
  std::set<std::int64_t> late_, released_, guests_;
  std::set<std::int64_t> ever_late_;              // those that never were members
  std::map<std::int64_t, std::string> expelled_;  // with the reason
};

}  // namespace lockstep::cluster::detail
