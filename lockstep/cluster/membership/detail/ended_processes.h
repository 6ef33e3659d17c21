// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// What whoever starts the processes of a job tells its coordinator, by another thread: members
// whose processes are known to be gone, each due a moment later, since its goodbye may be on its
// way; and those that are to leave.
class EndedProcesses {
 public:
  void release(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    released_.push_back(id);
  }
  // It may stay after all.
  void keep(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    std::erase(released_, id);
  }
  std::vector<std::int64_t> take_released() {
    const std::lock_guard lock(mutex_);
    return std::exchange(released_, {});
  }

  void add(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    std::erase(released_, id);
    all_.push_back({id, comm::Clock::now() + kGoodbyeTime});
  }

  std::vector<std::int64_t> take_due() {
    const std::lock_guard lock(mutex_);
    const auto is_due = [now = comm::Clock::now()](const One& one) { return one.due <= now; };
    std::vector<std::int64_t> ids;
    for (const One& one : all_)
      if (is_due(one)) ids.push_back(one.id);
    std::erase_if(all_, is_due);
    return ids;
  }

 private:
  static constexpr auto kGoodbyeTime = std::chrono::seconds(1);
  struct One {
    std::int64_t id;
    comm::Deadline due;
  };
  std::mutex mutex_;
  std::vector<One> all_;  // guarded by it
  std::vector<std::int64_t> released_;
};

}  // namespace lockstep::cluster::detail
