// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/servers/served_job.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// The workers of a job, of whom this is one, and its servers.
struct JobParts {
  comm::Communicator* communicator = nullptr;  // of the workers; null: there is one
  Membership membership = alone();             // the workers'
  const ServedJob* servers = nullptr;          // null: there are none
  // Of ps_ssp: by how many steps a worker may be ahead of the slowest.
  std::uint64_t staleness = 3;
  // Of ps_ssp and ps_async: as OutOfStepOptions has it.
  bool damps_stale = true;
};

// How gradients become parameters, by name.
struct StoreType {
  std::string_view name;
  // Between workers. Null: within one process, which local_mode() is for. Throws InvalidArgument
  // where servers are needed and there are none, Unsupported where training cannot be so.
  std::unique_ptr<Mode> (*make)(const JobParts& job, const AllReduceOptions& options);
  bool needs_servers = false;
  bool in_step = true;      // a step, or a push, is that of all workers
  bool is_bounded = false;  // otherwise workers may be any number of steps apart

  bool is_local() const { return make == nullptr; }
};

// Our names, and MXNet's: "local", "device" | "allreduce", "horovod" | "ps_sync" | "ps_async" |
// "ps_ssp". "dist_sync" and its kin mean servers where there are any, and workers among themselves
// otherwise. Throws InvalidArgument, which lists them.
const StoreType& find_store_type(std::string_view name, bool has_servers = false);

// Throws InvalidArgument when the type needs servers and the job has none.
const ServedJob& servers_of(const JobParts& job, std::string_view type);

}  // namespace lockstep::kvstore
