// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/rendezvous_point.h"

#include "lockstep/cluster/detail/environment.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostServers = 1 << 20;

int servers_variable(int most) {
  return number_variable("LOCKSTEP_SERVERS", variable("LOCKSTEP_SERVERS").value_or("0"), 0, most);
}

}  // namespace

void take_role(Place& place, const char* name, const std::string& rank) {
  const std::string role = variable("LOCKSTEP_ROLE").value_or("worker");
  if (role != "worker" && role != "server")
    throw InvalidArgument("LOCKSTEP_ROLE: is '{}', expected worker or server", role);
  place.role = role == "worker" ? Role::worker : Role::server;
  place.servers = servers_variable(kMostServers);
  if (place.role == Role::server && place.servers == 0)
    throw InvalidArgument("LOCKSTEP_SERVERS: is 0, though LOCKSTEP_ROLE is server");
  const int size = place.role == Role::worker ? place.workers : place.servers;
  place.rank = number_variable(name, rank, 0, size - 1);
}

void take_task(Place& place, int task, int tasks) {
  place.servers = servers_variable(tasks - 1);
  place.workers = tasks - place.servers;
  place.role = task < place.workers ? Role::worker : Role::server;
  place.rank = place.role == Role::worker ? task : task - place.workers;
}

CoordinatorOptions coordinator_of(const Place& place, CoordinatorOptions own,
                                  const comm::Endpoint& listen, const std::string& secret) {
  own.ports = place.ports;
  own.listen = listen;
  own.secret = secret;
  own.workers = place.workers;
  own.servers = place.servers;
  own.own_worker = place.id();
  return own;
}

RendezvousPoint find_rendezvous(const Place& place, const CoordinatorOptions& own) {
  switch (place.launcher) {
    case Place::Launcher::lockstep:
    case Place::Launcher::dmlc: break;
    case Place::Launcher::mpi: return rendezvous_by_mpi(place, own);
    case Place::Launcher::slurm: return rendezvous_by_slurm(place, own);
    case Place::Launcher::kubernetes: return rendezvous_by_kubernetes(place, own);
  }
  return {place};
}

}  // namespace lockstep::cluster::detail
