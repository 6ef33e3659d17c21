// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/job_coordinator.h"

#include <pthread.h>

#include <utility>

namespace lockstep::cluster::detail {

JobCoordinator::JobCoordinator(CoordinatorOptions options, std::int64_t next_id)
    : next_id_(next_id) {
  options.new_id = [this] { return new_id(); };
  options.on_event = [this](const MembershipEvent& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  };
  options.log = [this](const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  };
  coordinator_.emplace(options);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    try {
      coordinator_->run(stop);
    } catch (const std::exception&) {
      has_failed_ = true;
    }
    is_running_ = false;
  });
  pthread_setname_np(thread_.native_handle(), "coordinator");
}

std::vector<std::string> JobCoordinator::take_lines() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

std::vector<MembershipEvent> JobCoordinator::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

}  // namespace lockstep::cluster::detail
