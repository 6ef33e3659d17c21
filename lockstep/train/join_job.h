// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/cluster/membership/job.h"
#include "lockstep/kvstore/store_type.h"
#include "lockstep/train/survival.h"

namespace lockstep::train {

// The job that this process is a member of, and how its members have the same weights.
struct OwnJob {
  std::unique_ptr<cluster::Job> job;            // null: started alone
  std::unique_ptr<kvstore::ServedJob> servers;  // null: there are none
  std::unique_ptr<kvstore::Mode> mode;
  // Where the options say that the job survives losses, for TrainerOptions::survival; null: it does
  // not.
  std::unique_ptr<Survival> survival = {};

  // What this worker is now, or was in the last generation, where workers change. From any thread,
  // callbacks too. A worker that comes late is none of the others before fit, and not the first;
  // one that has left is not either.
  int rank() const { return job ? job->rank() : 0; }
  int workers() const { return job ? job->size() : 1; }
  bool is_first() const { return !job || (job->is_in_generation() && job->rank() == 0); }
  // For collectives by hand, as Job::shared_communicator() has it; null: there is nobody else.
  std::shared_ptr<comm::Communicator> communicator() const;
  // For a store: `kvstore::create("dist_sync", own.parts())`. It refers to this, and to the
  // communicator of the present generation, as long as that one lives.
  kvstore::JobParts parts() const;
};

// How gradients are to become parameters.
struct JobStore {
  // As kvstore::find_store_type knows it, MXNet's names too. "dist_sync" is ps_sync where the job
  // has servers, allreduce where it has none, and local for a process alone; "ps_async" and
  // "ps_ssp" need servers.
  std::string name = "dist_sync";
  std::uint64_t staleness = 3;  // of ps_ssp: steps that a worker may be ahead of the slowest
  bool damps_stale = true;      // of ps_async and ps_ssp, as kvstore::OutOfStepOptions has it
  // Of allreduce, of a job that does not survive losses (Unsupported): changes no bit.
  kvstore::ShardState shard_state = kvstore::ShardState::none;
};

// For a program of one's own, before anything is computed: a worker of the job that `lockstep
// launch`, mpirun or srun has started, or a process alone. The members agree on an instruction set.
// Where the job has servers they keep the parameters, in step (ps_sync) unless `store` says
// otherwise, each value on two of them where the options tolerate lost servers. A server, or a
// scheduler of MXNet's launcher, does its part in here and ends the program with status 0 when the
// job is over: only workers come back. A worker that comes to a job that is under way, in the place
// of a lost one, is by itself until fit. Throws as cluster::Job does, InvalidArgument for a store
// that there is not or whose servers the job lacks, and Unsupported for one that cannot be so.
OwnJob join_job(const cluster::JobOptions& options = {}, const JobStore& store = {});

}  // namespace lockstep::train
