// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostMembers = 1 << 20;

bool is_this_machine(const std::string& host) {
  return comm::is_loopback(host) || host == "localhost";
}

int count_of(const char* name, int least) {
  return number_variable(name, needed_variable(name, "DMLC_ROLE"), least, kMostMembers);
}

void take_dmlc_role(Place& place, const std::string& role) {
  if (role != "worker" && role != "server" && role != "scheduler")
    throw InvalidArgument("DMLC_ROLE: is '{}', expected worker, server or scheduler", role);
  place.role = role == "server" ? Role::server : Role::worker;
  place.is_scheduler = role == "scheduler";
  if (place.role == Role::server && place.servers == 0)
    throw InvalidArgument("DMLC_NUM_SERVER: is 0, though DMLC_ROLE is server");
}

comm::Endpoint scheduler_endpoint() {
  const std::string host = needed_variable("DMLC_PS_ROOT_URI", "DMLC_ROLE");
  const int port = number_variable("DMLC_PS_ROOT_PORT",
                                   needed_variable("DMLC_PS_ROOT_PORT", "DMLC_ROLE"), 1, 65535);
  return {host, static_cast<std::uint16_t>(port)};
}

// MXNet's jobs have none. What does not leave this machine does without: the address is as good.
std::string secret_for(const comm::Endpoint& scheduler) {
  if (const auto given = variable("LOCKSTEP_SECRET")) return *given;
  if (is_this_machine(scheduler.host)) return "dmlc " + to_string(scheduler);
  throw InvalidArgument(
      "DMLC_PS_ROOT_URI: is '{}', which other machines may reach, and the job has no secret: set "
      "LOCKSTEP_SECRET to the same random text for all its processes (openssl rand -hex 32)",
      scheduler.host);
}

}  // namespace

std::optional<Place> find_dmlc_place() {
  const auto role = variable("DMLC_ROLE");
  if (!role) return std::nullopt;
  Place place;
  place.launcher = Place::Launcher::dmlc;
  place.rank = -1;
  place.workers = count_of("DMLC_NUM_WORKER", 1);
  place.servers = count_of("DMLC_NUM_SERVER", 0);
  take_dmlc_role(place, *role);
  place.coordinator = scheduler_endpoint();
  place.secret = secret_for(place.coordinator);
  place.interface = variable("LOCKSTEP_INTERFACE").value_or("");
  place.transport = variable("LOCKSTEP_TRANSPORT").value_or("");
  return place;
}

}  // namespace lockstep::cluster::detail
