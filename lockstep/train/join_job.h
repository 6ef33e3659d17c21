// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/cluster/membership/job.h"
#include "lockstep/kvstore/store_type.h"

namespace lockstep::train {

// The job that this process is a member of, and how its members have the same weights.
struct OwnJob {
  std::unique_ptr<cluster::Job> job;            // null: started alone
  std::unique_ptr<kvstore::ServedJob> servers;  // null: there are none
  std::unique_ptr<kvstore::Mode> mode;

  bool is_first() const { return mode->group().is_first(); }
  // For a store: `kvstore::create("dist_sync", own.parts())`. It refers to this.
  kvstore::JobParts parts() const;
};

// For a program of one's own, before anything is computed: a worker of the job that `lockstep
// launch`, mpirun or srun has started, or a process alone. The members agree on an instruction set.
// Where the job has servers they keep the parameters, in step (ps_sync), each value on two of them
// where the options tolerate lost servers. A server, or a scheduler
// of MXNet's launcher, does its part in here and ends the program with status 0 when the job is
// over: only workers come back. Throws as cluster::Job does.
OwnJob join_job(const cluster::JobOptions& options = {});

}  // namespace lockstep::train
