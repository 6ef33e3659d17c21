// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/parallel/placement.h"
#include "lockstep/parallel/step_costs.h"

namespace lockstep::parallel {

// How a worker's part of a step is arranged: the engine's own rules (train/detail/step_plan.h).
struct WorkerShape {
  ShardRange segments{}, shards{};
  int threads = 1;               // that it has shards for
  bool is_alone = false;         // the only worker of the job
  bool waits_for_links = false;  // gradients go over a network
  bool has_exchange = false;     // and a thread of their own takes them there
  bool takes_turns = false;      // the last two shards run side by side
  bool sums_in_place = false;    // in memory that all workers see
};
// `hosts`: of each worker, by rank.
WorkerShape shape_of(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                     const std::vector<int>& hosts, int worker);

// Parameters of a stage whose gradients travel together, in the order in which they are made.
struct Bucket {
  std::size_t floats = 0;
  int segment = 0;  // whose backward pass makes the last of them
  double at = 1.0;  // when, as a part of that pass
};
std::vector<Bucket> buckets_of(const StepCosts& costs, const ShardRange& segments);

// What a worker plans for a step (`step_bytes` of a run), by what it is for.
struct StepMemory {
  std::size_t weights = 0, state = 0, gradients = 0, activations = 0, fixed = 0;
  std::size_t bytes() const { return weights + state + gradients + activations + fixed; }
};
StepMemory memory_of(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                     const std::vector<int>& hosts, int worker);

// The same where nothing is known but the parameters: no less.
std::size_t least_bytes(std::size_t floats, int slots, const Placement& placement);

}  // namespace lockstep::parallel
