// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/comm/detail/lifeline.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::detail {

// Transfers that move on by other means during an exchange: by shared memory, in a group of several
// hosts.
class Companion {
 public:
  virtual ~Companion() = default;
  virtual std::span<const Transfer> transfers() const = 0;
  // Moves what can move now; true when something did.
  virtual bool move_on(std::string_view operation) = 0;
  // Around a sleep that a knock on the lifeline ends. False: something can move, there is no sleep.
  virtual bool lie_down() = 0;
  virtual void get_up() = 0;
};

// What transports between hosts have in common: a lifeline, which knows the group, and how an
// exchange waits.
class LifelineTransport : public Transport {
 public:
  int rank() const override { return lifeline_.rank(); }
  int size() const override { return lifeline_.size(); }
  const std::string& host(int rank) const override { return lifeline_.host(rank); }
  void abort(const std::string& reason) override { lifeline_.abort(reason); }

  Lifeline& lifeline() { return lifeline_; }
  // During the next exchanges, until it is null again.
  void accompany(Companion* companion) { companion_ = companion; }

 protected:
  LifelineTransport(const Bootstrap& bootstrap, std::vector<Socket> sockets)
      : lifeline_(bootstrap, std::move(sockets)) {}

  // One turn without waiting; true when something moved.
  virtual bool move_on(std::span<Transfer> transfers, std::string_view operation) = 0;
  // Until something could move or the lifeline has news, which it returns.
  virtual bool sleep(std::span<Transfer> transfers, Deadline until) = 0;

  // A byte each way with every peer.
  void greet_all(Deadline deadline);
  // Turns until all is done.
  void complete(std::span<Transfer> transfers, Deadline deadline, std::string_view operation);
  bool has_companion() const { return companion_ != nullptr; }

  Lifeline lifeline_;

 private:
  // A peer with which something is not done; -1: all is.
  int unfinished(std::span<const Transfer> transfers) const;
  void rest(std::span<Transfer> transfers, Deadline deadline, std::string_view operation);
  [[noreturn]] void time_out(std::span<const Transfer> transfers, std::string_view operation,
                             Deadline begin);

  Companion* companion_ = nullptr;
};

}  // namespace lockstep::comm::detail
