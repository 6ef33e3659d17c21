// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/cluster/membership/care.h"
#include "lockstep/cluster/membership/place.h"
#include "lockstep/cluster/membership/rendezvous.h"

namespace lockstep::cluster {

// What the members of a job have in common.
struct RendezvousTerms {
  std::string version = {}, configuration = {};
  std::chrono::milliseconds timeout{60'000};  // until all have come
  bool tolerates_lost_servers = false;
  bool survives = false;  // the loss of workers
  Care care = {};
};

// The rendezvous of a process that knows its place, whoever started it: where nobody else does, the
// first worker runs the coordinator, for as long as this object lives.
class PlacedRendezvous {
 public:
  // Throws as Rendezvous does, and IoError, NotFound, naming the file or the hosts by which members
  // look for each other.
  PlacedRendezvous(const Place& place, const RendezvousTerms& terms);
  ~PlacedRendezvous();

  Rendezvous& operator*() const;
  Rendezvous* operator->() const { return &**this; }
  const std::string& secret() const;
  const comm::Endpoint& coordinator() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
