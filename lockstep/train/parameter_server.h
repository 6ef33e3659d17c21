// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/base/processor.h"
#include "lockstep/cluster/membership/job.h"
#include "lockstep/kvstore/servers/served_job.h"

namespace lockstep::train {

// The best instruction set that all servers of the job have, for the workers to agree on no better
// one; none where there are no servers.
std::optional<InstructionSet> servers_instruction_set(cluster::Job& job,
                                                      std::chrono::milliseconds timeout);

// What all members of a job with servers say alike.
struct ServersOptions {
  int replicas = 1;  // 2: a server may be lost, where the job tolerates it too (JobOptions)
  std::chrono::milliseconds timeout{60'000};  // of one member for another
};

// A job's servers as its members find them, which each of its workers asks for once in a
// generation, after they have agreed on an instruction set: the servers take that one too. The job
// outlives what is made of it.
kvstore::ServedJob servers_of(cluster::Job& job, const ServersOptions& options = {});

// What a process of the role server does: keeps parameters and updates them, with the workers'
// instruction set, until every worker has left the job. Throws what ended the job otherwise.
void run_parameter_server(cluster::Job& job, const ServersOptions& options = {}, int threads = 1);

}  // namespace lockstep::train
