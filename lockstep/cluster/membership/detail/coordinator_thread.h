// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/cluster/membership/coordinator.h"

namespace lockstep::cluster::detail {

// What a member must know to come to a point. The endpoints are all of one coordinator: a member
// takes the first at which it finds somebody who knows the secret.
struct Invitation {
  std::vector<comm::Endpoint> endpoints = {};
  std::string secret = {};
};

// One line for each.
std::string to_text(const Invitation& invitation);
// Throws Corrupt.
Invitation parse_invitation(const std::string& text);

// Of a job that nobody coordinates but its members: rank 0's coordinator, or that of a member that
// was elected, in a thread of its own.
class CoordinatorThread {
 public:
  // Serves from now on. Throws as Coordinator does.
  explicit CoordinatorThread(const CoordinatorOptions& options);
  explicit CoordinatorThread(std::unique_ptr<Coordinator> coordinator, bool has_servers = false);
  // In a job with servers, the others may leave first: a server stays until all workers have left.
  // Where the run is done, all members hear it.
  ~CoordinatorThread();

  std::uint16_t port() const { return coordinator_->endpoint().port; }

 private:
  std::unique_ptr<Coordinator> coordinator_;
  bool has_servers_;
  std::binary_semaphore done_{0};
  std::jthread thread_;  // what it throws, the members have heard
};

// The addresses at which members on other hosts may reach this one: those of `interface` (a name or
// an address), else the one that leads to the host `other`, else all that are not loopback. Throws
// NotFound.
std::vector<std::string> reachable_addresses(const std::string& interface,
                                             const std::string& other);

// An address to listen at for all of `addresses`.
std::string listen_address(const std::vector<std::string>& addresses);

// The first of the endpoints that proves the secret within `timeout`. Throws the last one's error.
comm::Endpoint find_coordinator(const Invitation& invitation, std::chrono::milliseconds timeout);

}  // namespace lockstep::cluster::detail
