// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/parallel/cluster_model.h"
#include "lockstep/parallel/placement.h"
#include "lockstep/parallel/step_costs.h"
#include "lockstep/parallel/traffic.h"

namespace lockstep::parallel {

// What a worker's lane does next.
struct Task {
  enum class Kind : std::uint8_t {
    compute,  // `seconds`
    send,     // message `id` of `bytes` to `peer`; goes on at once
    receive,  // waits for message `id`
    mark,     // mark `id` of this worker is set
    wait,     // until it is
    join      // collective `id`, with all others of it
  };
  enum class Phase : std::uint8_t { forward, backward, update };
  Kind kind = Kind::compute;
  Phase phase = Phase::update;
  std::int64_t shard = -1;
  double seconds = 0.0, bytes = 0.0;
  int peer = 0;
  std::int64_t id = 0;
};

// A worker computes, and beside that a thread of its own brings gradients to the others.
struct WorkerTasks {
  std::vector<Task> computing = {}, exchange = {};
};

// A step as data: what every worker does, in order.
struct StepTasks {
  std::vector<WorkerTasks> workers = {};
  std::vector<Collective> collectives = {};
};

// As the engine does it: the schedule's actions of a pipeline, buckets that leave while the last
// shards are under way, sums by the algorithm, owners' updates, the vote. Throws InvalidArgument
// where a placement does not fit the mesh or the cluster.
StepTasks write_step(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                     const ClusterModel& cluster);

}  // namespace lockstep::parallel
