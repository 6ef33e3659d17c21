// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"

// A coordinator and its members, as the tests of a rendezvous have them.
namespace lockstep::testing {

using namespace std::chrono_literals;

inline cluster::CoordinatorOptions coordinator_options(int size,
                                                       std::chrono::milliseconds timeout = 10s) {
  cluster::CoordinatorOptions options;
  options.secret = "open sesame";
  options.workers = size;
  options.timeout = timeout;
  return options;
}

inline cluster::RendezvousOptions member_of(const cluster::Coordinator& coordinator, int size) {
  cluster::RendezvousOptions options;
  options.coordinator = coordinator.endpoint();
  options.secret = "open sesame";
  options.workers = size;
  options.version = "1.0";
  options.configuration = "c0ffee";
  options.timeout = 10s;
  return options;
}

inline cluster::RendezvousOptions member_of(const cluster::Coordinator& coordinator, Role role,
                                            int rank, int workers, int servers) {
  cluster::RendezvousOptions options = member_of(coordinator, workers);
  options.role = role;
  options.rank = rank;
  options.servers = servers;
  options.host = fmt::format("{}{}", to_string(role), rank);
  return options;
}

// rank/size, hosts, and what all_gather brings.
inline std::string report(const cluster::RendezvousOptions& options) {
  cluster::Rendezvous member(options);
  std::string text = fmt::format("{}/{}", member.rank(), member.size());
  for (const std::string& host : member.hosts()) text += " " + host;
  for (const std::string& one : member.all_gather(std::to_string(member.rank() * 10), 5s))
    text += " " + one;
  return text;
}

inline std::string text_of(const Membership& membership) {
  std::string text = std::to_string(membership.generation);
  for (const Member& member : membership.members)
    text += fmt::format(" {}:{}", member.id, member.host);
  return text;
}

}  // namespace lockstep::testing
