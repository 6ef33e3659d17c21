// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

struct RendezvousOptions {
  comm::Endpoint coordinator = {};
  std::string secret = {};
  int size = 1;
  int rank = -1;               // -1: the coordinator deals one
  std::string interface = {};  // a name or an address; empty: the one that reaches the coordinator
  std::string version = {};    // of the program; the same for all members
  std::string configuration = {};  // a hash of what all members must agree on
  std::string host = {};           // this machine's name; empty: the system's
  std::chrono::milliseconds timeout{30'000};
};

// A member's place in a job: it finds the coordinator, proves the secret and hears who is there.
class Rendezvous {
 public:
  // Returns when all members are there. Throws Timeout, Refused, PeerLost, Corrupt, NotFound (no
  // such interface), each with the coordinator's host and port and the reason.
  explicit Rendezvous(const RendezvousOptions& options);
  // Says goodbye.
  ~Rendezvous();

  int rank() const;
  int size() const;
  const std::vector<std::string>& hosts() const;  // by rank
  // This machine's address on the interface that reaches the coordinator.
  const std::string& address() const;

  // Every member gives bytes, and gets those of all in order of rank. An error breaks it for good.
  std::vector<std::string> all_gather(const std::string& bytes, std::chrono::milliseconds timeout);

  // Tells the coordinator, if it is there to hear it, that this member ends since it missed
  // another.
  void complain(int rank, const std::string& text) noexcept;

  // For the transports of comm/. It refers to this object.
  comm::Bootstrap bootstrap();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
