// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostPods = 1 << 20;
constexpr auto kAnswerTime = std::chrono::seconds(2);

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

bool is_under_way(const Place& place) {
  try {
    return query_membership(place.coordinator, place.secret, kAnswerTime).membership.generation > 0;
  } catch (const Error&) {
    return false;  // it may be on its way, too
  }
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

RendezvousPoint rendezvous_by_kubernetes(const Place& place, const CoordinatorOptions& own) {
  RendezvousPoint point{place};
  if (place.is_late || place.id() != 0) return point;
  point.coordinator = std::make_unique<CoordinatorThread>(
      coordinator_of(place, own, {any_address(), place.coordinator.port}, place.secret));
  return point;
}

}  // namespace lockstep::cluster::detail

namespace lockstep::cluster {

void look_for_running_job(Place& place) {
  const bool may_be_late = place.launcher == Place::Launcher::kubernetes && !place.is_scheduler &&
                           place.role == Role::worker && place.rank > 0;
  if (!may_be_late || !detail::is_under_way(place)) return;
  place.is_late = true;
  place.rank = -1;
}

}  // namespace lockstep::cluster
