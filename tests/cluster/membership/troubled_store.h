// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/store.h"

namespace lockstep::testing {

inline comm::Deadline soon() { return comm::Clock::now() + std::chrono::seconds(30); }

// Another store, as somebody sees it who is cut off from it, or whose changes take long.
class TroubledStore final : public cluster::Store {
 public:
  explicit TroubledStore(std::shared_ptr<cluster::Store> inner) : inner_(std::move(inner)) {}

  std::atomic<bool> is_cut = false;
  std::atomic<bool> holds_changes = false;  // as long as it is so
  std::atomic<int> held = 0;                // changes that wait
  std::atomic<int> kept_alive = 0;          // so often

  // What was committed, in order.
  std::vector<cluster::StoreChange> changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

  std::string name() const override { return "troubled"; }
  std::optional<cluster::StoreEntry> get(const std::string& name, comm::Deadline until) override {
    return check(), inner_->get(name, until);
  }
  std::vector<cluster::StoreEntry> list(const std::string& prefix, comm::Deadline until) override {
    return check(), inner_->list(prefix, until);
  }
  std::optional<std::int64_t> commit(const cluster::StoreChange& change,
                                     comm::Deadline until) override {
    check();
    ++held;
    while (holds_changes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --held;
    const std::lock_guard lock(mutex_);
    changes_.push_back(change);
    return inner_->commit(change, until);
  }
  cluster::StoreLease grant(std::chrono::milliseconds length, comm::Deadline until) override {
    return check(), inner_->grant(length, until);
  }
  bool keep_alive(const cluster::StoreLease& lease, comm::Deadline until) override {
    check();
    ++kept_alive;
    return inner_->keep_alive(lease, until);
  }
  void revoke(const cluster::StoreLease& lease, comm::Deadline until) override {
    check(), inner_->revoke(lease, until);
  }

 private:
  void check() const {
    if (is_cut) throw IoError("store: cut off");
  }
  std::shared_ptr<cluster::Store> inner_;
  mutable std::mutex mutex_;
  std::vector<cluster::StoreChange> changes_;  // guarded by it
};

}  // namespace lockstep::testing
