// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/cluster/membership/coordinator.h"

namespace lockstep::cluster::detail {

// A launcher's coordinator, in a thread of its own. What it says, and what happens to the members,
// is kept until the launcher asks.
class JobCoordinator {
 public:
  // Serves from now on. Members from `next_id` on are numbered here, those that the launcher starts
  // as well as those that come by themselves. Throws as Coordinator does.
  JobCoordinator(CoordinatorOptions options, std::int64_t next_id);

  Coordinator* operator->() { return &*coordinator_; }
  const Coordinator* operator->() const { return &*coordinator_; }

  std::int64_t new_id() { return next_id_++; }
  std::vector<std::string> take_lines();
  std::vector<MembershipEvent> take_events();
  // What it has to complain about, the members hear and say.
  bool has_failed() const { return has_failed_; }
  bool is_running() const { return is_running_; }
  // It takes what was said last, and ends.
  void end() { thread_ = {}; }

 private:
  std::atomic<std::int64_t> next_id_;
  std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by it
  std::vector<MembershipEvent> events_;
  std::atomic<bool> has_failed_ = false, is_running_ = true;
  std::optional<Coordinator> coordinator_;
  std::jthread thread_;  // after what it uses
};

}  // namespace lockstep::cluster::detail
