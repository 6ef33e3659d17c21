// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/meeting.h"

namespace lockstep::cluster::detail {

Meeting meet(const Place& place, std::chrono::milliseconds timeout) {
  switch (place.launcher) {
    case Place::Launcher::lockstep: break;
    case Place::Launcher::mpi: return meet_by_mpi(place, timeout);
    case Place::Launcher::slurm: return meet_by_slurm(place, timeout);
    case Place::Launcher::kubernetes: return meet_by_kubernetes(place, timeout);
  }
  return {place};
}

}  // namespace lockstep::cluster::detail
