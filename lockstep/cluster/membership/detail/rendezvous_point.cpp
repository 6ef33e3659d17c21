// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/rendezvous_point.h"

namespace lockstep::cluster::detail {

RendezvousOptions rendezvous_options(const Place& place, std::chrono::milliseconds timeout) {
  RendezvousOptions result;
  result.coordinator = place.coordinator;
  result.secret = place.secret;
  result.size = place.size;
  result.rank = place.rank;
  result.interface = place.interface;
  result.host = place.host;
  result.timeout = timeout + std::chrono::seconds(1);
  return result;
}

RendezvousPoint find_rendezvous(const Place& place, std::chrono::milliseconds timeout) {
  switch (place.launcher) {
    case Place::Launcher::lockstep: break;
    case Place::Launcher::mpi: return rendezvous_by_mpi(place, timeout);
    case Place::Launcher::slurm: return rendezvous_by_slurm(place, timeout);
    case Place::Launcher::kubernetes: return rendezvous_by_kubernetes(place, timeout);
  }
  return {place};
}

}  // namespace lockstep::cluster::detail
