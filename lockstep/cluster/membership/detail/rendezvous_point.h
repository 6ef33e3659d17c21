// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/cluster/membership/detail/coordinator_thread.h"
#include "lockstep/cluster/membership/detail/rendezvous_file.h"
#include "lockstep/cluster/membership/place.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::cluster::detail {

// Where the members of a job meet: a place whose coordinator and secret are known, whoever started
// the job.
struct RendezvousPoint {
  Place place;
  std::unique_ptr<CoordinatorThread> coordinator = {};  // rank 0's, where members coordinate
  std::unique_ptr<RendezvousFile> file = {};            // no longer needed when all have joined
};

// As whoever started the job asks for. `own` is for a coordinator that this process may have to be:
// its place is filled in. Its timeout is everybody's.
RendezvousPoint find_rendezvous(const Place& place, const CoordinatorOptions& own);

// Each is called by every member, which waits for rank 0 until the deadline. They throw Timeout,
// IoError, NotFound, naming the file or the hosts.
RendezvousPoint rendezvous_by_mpi(const Place& place, const CoordinatorOptions& own);
RendezvousPoint rendezvous_by_slurm(const Place& place, const CoordinatorOptions& own);
RendezvousPoint rendezvous_by_kubernetes(const Place& place, const CoordinatorOptions& own);
// A coordinator of the job that this is the place of.
CoordinatorOptions coordinator_of(const Place& place, CoordinatorOptions own,
                                  const comm::Endpoint& listen, const std::string& secret);

// The ranks of an mpirun, over MPI alone. Throws InvalidArgument when MPI knows another place.
std::unique_ptr<comm::Transport> connect_by_mpi(const Place& place);
// Throws Refused, naming the first rank whose text differs from rank 0's.
void check_agreement(comm::Communicator& group, const std::string& text,
                     std::chrono::milliseconds timeout);

// Role, rank among its members, and number of servers, as LOCKSTEP_ROLE and LOCKSTEP_SERVERS say;
// `rank` is the value of the variable `name`. The number of workers is known.
void take_role(Place& place, const char* name, const std::string& rank);
// Of one of so many processes that are all started alike: the last LOCKSTEP_SERVERS are servers.
void take_task(Place& place, int task, int tasks);

// The environments of mpirun (OpenMPI's, MPICH's), of a step of srun, of an Indexed Job's pod, of
// MXNet's launcher. None when this process has not been started so, or alone.
std::optional<Place> find_openmpi_place();
std::optional<Place> find_mpich_place();
std::optional<Place> find_slurm_place();
std::optional<Place> find_kubernetes_place();
std::optional<Place> find_dmlc_place();

}  // namespace lockstep::cluster::detail
