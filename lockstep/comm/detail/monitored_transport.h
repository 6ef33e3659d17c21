// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/comm/detail/peer_monitor.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::detail {

// Transfers that move on by other means during an exchange: by shared memory, in a group of several
// hosts.
class SideTransfers {
 public:
  virtual ~SideTransfers() = default;
  virtual std::span<const Transfer> transfers() const = 0;
  // Moves what can move now; true when something did.
  virtual bool move_on(std::string_view operation) = 0;
  // Around a sleep that the monitor's wake ends. False: something can move, there is no sleep.
  virtual bool park() = 0;
  virtual void unpark() = 0;
};

// What transports between hosts have in common: a monitor of the peers, which knows the group, and
// how an exchange waits.
class MonitoredTransport : public Transport {
 public:
  int rank() const override { return monitor_.rank(); }
  int size() const override { return monitor_.size(); }
  const std::string& host(int rank) const override { return monitor_.host(rank); }
  void abort(const std::string& reason) override { monitor_.abort(reason); }
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override;
  // Another group by the same means.
  virtual std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap) const = 0;

  // How this group was connected, without its all_gather.
  const Bootstrap& bootstrap() const { return bootstrap_; }

  PeerMonitor& monitor() { return monitor_; }
  // During the next exchanges, until it is null again.
  void set_side_transfers(SideTransfers* side) { side_ = side; }

 protected:
  MonitoredTransport(const Bootstrap& bootstrap, std::vector<Socket> sockets)
      : monitor_(bootstrap, std::move(sockets)), bootstrap_(bootstrap) {
    bootstrap_.all_gather = {};
    bootstrap_.check = {};
  }

  // One turn without waiting; true when something moved.
  virtual bool move_on(std::span<Transfer> transfers, std::string_view operation) = 0;
  // Until something could move or the monitor has news, which it returns.
  virtual bool sleep(std::span<Transfer> transfers, Deadline until) = 0;

  // A byte each way with every peer; the last thing that connecting takes.
  void greet_all(const Bootstrap& bootstrap);
  // Turns until all is done.
  void complete(std::span<Transfer> transfers, Deadline deadline, std::string_view operation);
  bool has_side_transfers() const { return side_ != nullptr; }

  PeerMonitor monitor_;

 private:
  // A peer with which something is not done; -1: all is.
  int unfinished(std::span<const Transfer> transfers) const;
  // Its bytes that have left by now.
  static std::size_t sent_of(std::span<const Transfer> transfers);
  void rest(std::span<Transfer> transfers, int peer, Deadline deadline, std::string_view operation);
  [[noreturn]] void time_out(std::span<const Transfer> transfers, std::string_view operation,
                             Deadline begin);

  Bootstrap bootstrap_;
  std::function<void()> check_ = {};  // while the group connects
  SideTransfers* side_ = nullptr;
};

}  // namespace lockstep::comm::detail
