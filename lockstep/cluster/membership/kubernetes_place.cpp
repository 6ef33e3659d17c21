// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostPods = 1 << 20;

comm::Endpoint first_pod() {
  const std::string text = needed_variable("LOCKSTEP_COORDINATOR", "JOB_COMPLETION_INDEX");
  try {
    return comm::parse_endpoint(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("LOCKSTEP_COORDINATOR: {}", error.what());
  }
}

// Both kinds of addresses where this host has both.
std::string any_address() {
  std::vector<std::string> addresses;
  for (const comm::Interface& one : comm::list_interfaces()) addresses.push_back(one.address);
  return addresses.size() == 1 ? "0.0.0.0" : listen_address(addresses);
}

}  // namespace

std::optional<Place> find_kubernetes_place() {
  const auto index = variable("JOB_COMPLETION_INDEX"), workers = variable("LOCKSTEP_WORKERS");
  if (!index || !workers) return std::nullopt;  // an Indexed Job of something else
  Place place;
  place.launcher = Place::Launcher::kubernetes;
  place.workers = number_variable("LOCKSTEP_WORKERS", *workers, 1, kMostPods);
  take_role(place, "JOB_COMPLETION_INDEX", *index);
  if (place.members() == 1) return std::nullopt;
  place.coordinator = first_pod();
  place.secret = needed_variable("LOCKSTEP_SECRET", "JOB_COMPLETION_INDEX");
  place.interface = variable("LOCKSTEP_INTERFACE").value_or("");
  place.transport = variable("LOCKSTEP_TRANSPORT").value_or("");
  return place;
}

RendezvousPoint rendezvous_by_kubernetes(const Place& place, std::chrono::milliseconds timeout) {
  RendezvousPoint point{place};
  if (place.id() != 0) return point;
  CoordinatorOptions options;
  options.ports = place.ports;
  options.listen = {any_address(), place.coordinator.port};
  options.secret = place.secret;
  options.workers = place.workers;
  options.servers = place.servers;
  options.timeout = timeout;
  point.coordinator = std::make_unique<CoordinatorThread>(options);
  return point;
}

}  // namespace lockstep::cluster::detail
