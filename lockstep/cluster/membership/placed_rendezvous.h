// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/cluster/membership/place.h"
#include "lockstep/cluster/membership/rendezvous.h"

namespace lockstep::cluster {

// The rendezvous of a process that knows its place, whoever started it: where nobody else does, the
// first worker runs the coordinator, for as long as this object lives.
class PlacedRendezvous {
 public:
  // `version` and `configuration` are the same for all members. Throws as Rendezvous does, and
  // IoError, NotFound, naming the file or the hosts by which members look for each other.
  PlacedRendezvous(const Place& place, const std::string& version, const std::string& configuration,
                   std::chrono::milliseconds timeout);
  ~PlacedRendezvous();

  Rendezvous& operator*() const;
  Rendezvous* operator->() const { return &**this; }
  const std::string& secret() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
