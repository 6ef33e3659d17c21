// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/membership.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster {

// A process's place in its job, as whoever started it told it by the environment.
struct Place {
  // lockstep: LOCKSTEP_ROLE (worker unless it is given), _RANK, _WORKERS, _SERVERS (0 unless it is
  // given), _COORDINATOR (host:port), _SECRET, and where given _HOST, _INTERFACE, _TRANSPORT,
  // _SCRATCH, _LAUNCHED_BY, _LATE. Of all: LOCKSTEP_PORTS, LOCKSTEP_TIMEOUT. mpi, slurm: mpirun's
  // and srun's own variables, and LOCKSTEP_SERVERS: so many processes, the last ones, are servers;
  // where the members meet is found out by MPI, or by a file in a folder that all of them see.
  // kubernetes: as lockstep's, but the rank is JOB_COMPLETION_INDEX and the coordinator is run by
  // the first worker. dmlc: MXNet's variables DMLC_ROLE, _PS_ROOT_URI, _PS_ROOT_PORT, _NUM_WORKER,
  // _NUM_SERVER, and LOCKSTEP_SECRET.
  enum class Launcher { lockstep, mpi, slurm, kubernetes, dmlc };
  Launcher launcher = Launcher::lockstep;
  Role role = Role::worker;
  int rank = 0;  // among the members of this role; -1: the coordinator deals one
  // LOCKSTEP_LATE: it comes to a job that is under way; the rank is the id that it is to have.
  bool is_late = false;
  // Of dmlc's jobs: this process is no member, but coordinates them (membership/scheduler.h).
  bool is_scheduler = false;
  int workers = 1, servers = 0;
  comm::Endpoint coordinator = {};  // of lockstep's, kubernetes' and dmlc's jobs; so is the secret
  std::string secret = {}, host = {}, interface = {}, transport = {};
  // A folder of the workers of this host in /dev/shm, which goes with them; made by whoever needs
  // it.
  std::string scratch = {};
  comm::PortRange ports = {};    // that this process may listen at
  std::string launched_by = {};  // what stands before the program on the user's command line
  // Where another member takes the coordinator's place when it is gone (membership/store.h), and
  // the job's name there. LOCKSTEP_STORE, LOCKSTEP_JOB, of lockstep's jobs; empty: nobody does.
  std::string store = {}, job = {};
  // LOCKSTEP_TIMEOUT, seconds: how long members wait for each other at the start; 0: as the program
  // says.
  std::chrono::seconds timeout{0};

  int members() const { return workers + servers; }
  // This one's number among all members, workers first.
  int id() const { return role == Role::worker ? rank : workers + rank; }
};

// None: this process is a job of its own. Throws InvalidArgument naming the variable that is
// missing or makes no sense.
std::optional<Place> find_place();

// A pod that takes the place of a lost one finds its job under way: then it comes late. Asks the
// coordinator; nobody else is, whoever does not answer.
void look_for_running_job(Place& place);

}  // namespace lockstep::cluster
