// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "lockstep/cluster/membership/store.h"

namespace lockstep::cluster {

// A store inside this process, which goes with it: for members that are threads, and for tests.
class MemoryStore final : public Store {
 public:
  using Now = std::function<comm::Deadline()>;
  explicit MemoryStore(Now now = comm::Clock::now) : now_(std::move(now)) {}

  std::string name() const override { return "memory"; }
  std::optional<StoreEntry> get(const std::string& name, comm::Deadline deadline) override;
  std::vector<StoreEntry> list(const std::string& prefix, comm::Deadline deadline) override;
  std::optional<std::int64_t> commit(const StoreChange& change, comm::Deadline deadline) override;
  StoreLease grant(std::chrono::milliseconds length, comm::Deadline deadline) override;
  bool keep_alive(const StoreLease& lease, comm::Deadline deadline) override;
  void revoke(const StoreLease& lease, comm::Deadline deadline) override;

 private:
  struct Kept {
    StoreEntry entry;
    std::int64_t lease = 0;
  };
  void end_leases();
  void end_lease(std::int64_t id);

  Now now_;
  std::mutex mutex_;
  std::map<std::string, Kept> entries_;            // guarded by it
  std::map<std::int64_t, comm::Deadline> leases_;  // until when
  std::int64_t last_version_ = 0, last_lease_ = 0;
};

}  // namespace lockstep::cluster
