// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/place.h"

#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"

namespace lockstep::cluster {
namespace {

using detail::needed_variable;
using detail::number_variable;
using detail::variable;

constexpr int kMostWorkers = 1 << 20;
constexpr int kLongestTimeout = 1'000'000;

comm::Endpoint coordinator_place() {
  const std::string text = needed_variable("LOCKSTEP_COORDINATOR", "LOCKSTEP_RANK");
  try {
    return comm::parse_endpoint(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("LOCKSTEP_COORDINATOR: {}", error.what());
  }
}

comm::PortRange ports_variable() {
  try {
    return comm::parse_ports(variable("LOCKSTEP_PORTS").value_or(""));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("LOCKSTEP_PORTS: {}", error.what());
  }
}

std::optional<Place> lockstep_place() {
  const auto rank = variable("LOCKSTEP_RANK");
  if (!rank) return std::nullopt;
  Place place;
  place.workers = number_variable(
      "LOCKSTEP_WORKERS", needed_variable("LOCKSTEP_WORKERS", "LOCKSTEP_RANK"), 1, kMostWorkers);
  place.is_late = variable("LOCKSTEP_LATE").has_value();
  if (place.is_late) {
    place.rank = number_variable("LOCKSTEP_RANK", *rank, 0, kMostWorkers);
    place.servers = number_variable("LOCKSTEP_SERVERS", variable("LOCKSTEP_SERVERS").value_or("0"),
                                    0, kMostWorkers);
  } else {
    detail::take_role(place, "LOCKSTEP_RANK", *rank);
  }
  place.coordinator = coordinator_place();
  place.secret = needed_variable("LOCKSTEP_SECRET", "LOCKSTEP_RANK");
  place.host = variable("LOCKSTEP_HOST").value_or("");
  place.interface = variable("LOCKSTEP_INTERFACE").value_or("");
  place.transport = variable("LOCKSTEP_TRANSPORT").value_or("");
  place.scratch = variable("LOCKSTEP_SCRATCH").value_or("");
  place.store = variable("LOCKSTEP_STORE").value_or("");
  if (!place.store.empty()) place.job = needed_variable("LOCKSTEP_JOB", "LOCKSTEP_STORE");
  place.launched_by = variable("LOCKSTEP_LAUNCHED_BY").value_or("");
  return place;
}

}  // namespace

// Whoever is nearest to the process comes first: lockstep launch may run inside a step of Slurm,
// and so may OpenMPI's mpirun. MXNet's launcher may have started the processes of each role by
// mpirun. MPICH's variables are Slurm's own too.
std::optional<Place> find_place() {
  for (const auto find :
       {lockstep_place, detail::find_kubernetes_place, detail::find_dmlc_place,
        detail::find_openmpi_place, detail::find_slurm_place, detail::find_mpich_place})
    if (auto place = find()) {
      if (const auto seconds = variable("LOCKSTEP_TIMEOUT"))
        place->timeout =
            std::chrono::seconds(number_variable("LOCKSTEP_TIMEOUT", *seconds, 1, kLongestTimeout));
      place->ports = ports_variable();
      return place;
    }
  return std::nullopt;
}

}  // namespace lockstep::cluster
