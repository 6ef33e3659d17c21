// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/mesh_links.h"
#include "lockstep/kvstore/servers/served_job.h"
#include "lockstep/recipes/run_config.h"

namespace lockstep::recipes {

// Whether its store is kept by servers.
bool has_servers(const RunConfig& config);
// Whether a step of its store is that of all workers.
bool is_in_step(const RunConfig& config);
// Throws Unsupported for what a run may ask for, but cannot have yet.
void check_supported(const RunConfig& config);
// The name of its store: "local", "allreduce", "ps_sync".
std::string kvstore_of(const RunConfig& config, std::int64_t workers);
// Whether another number of workers would give the same bits.
bool is_invariant(const RunConfig& config);
// "the same bits on any number of threads and workers".
// `since`: the step from which on it has this number of workers; before, it may have had others.
std::string promise_of(const RunConfig& config, std::int64_t workers, std::int64_t since = 0);

// How the gradients of a run become weights.
class RunMode {
 public:
  // `communicator`, of the membership's workers, is null for the only one. It outlives the mode.
  // Throws InvalidArgument when the store needs servers and the job has none. `shape`: of the
  // workers that have a replica between them.
  RunMode(comm::Communicator* communicator, const Membership& membership, const RunConfig& config,
          std::chrono::milliseconds timeout, const kvstore::ServedJob* servers = nullptr,
          kvstore::ShardState shard_state = kvstore::ShardState::none,
          const kvstore::ReplicaShape& shape = {});
  // Of a worker that comes to a run that is under way, until it has joined the others.
  static RunMode of_latecomer(const RunConfig& config, std::chrono::milliseconds timeout);
  kvstore::Mode& get() const { return *mode_; }

 private:
  RunMode() = default;

  std::unique_ptr<comm::InProcessGroup> group_;  // of one
  std::unique_ptr<comm::Communicator> alone_;
  std::unique_ptr<kvstore::Mode> mode_;
};

// The mode of a generation of a job's workers, for train::survive.
std::shared_ptr<kvstore::Mode> mode_of_generation(comm::Communicator* communicator,
                                                  const Membership& membership,
                                                  const RunConfig& config,
                                                  std::chrono::milliseconds timeout,
                                                  const kvstore::ServedJob* servers = nullptr);

}  // namespace lockstep::recipes
