// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "lockstep/cluster/membership/store.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// etcd by its HTTP gateway. A server that is gone, or has lost the others, is passed over: the next
// one is asked, again and again until the deadline.
class EtcdStore final : public Store {
 public:
  EtcdStore(std::string address, std::vector<comm::Endpoint> servers)
      : address_(std::move(address)), servers_(std::move(servers)) {}

  std::string name() const override { return address_; }
  std::optional<StoreEntry> get(const std::string& name, comm::Deadline deadline) override;
  std::vector<StoreEntry> list(const std::string& prefix, comm::Deadline deadline) override;
  std::optional<std::int64_t> commit(const StoreChange& change, comm::Deadline deadline) override;
  StoreLease grant(std::chrono::milliseconds length, comm::Deadline deadline) override;
  bool keep_alive(const StoreLease& lease, comm::Deadline deadline) override;
  void revoke(const StoreLease& lease, comm::Deadline deadline) override;

 private:
  struct Answer {
    std::string body = {};     // JSON
    bool is_first_try = true;  // else an earlier one may have been heard, too
  };
  Answer ask(const std::string& path, const std::string& body, comm::Deadline deadline);
  std::optional<std::int64_t> version_if_done(const StoreChange& change, comm::Deadline deadline);

  std::string address_;
  std::vector<comm::Endpoint> servers_;
  std::atomic<std::size_t> good_ = 0;  // the one that answered last
};

}  // namespace lockstep::cluster::detail
