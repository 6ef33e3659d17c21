// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/step_memory.h"

#include <algorithm>

#include "lockstep/kvstore/piece_owners.h"

namespace lockstep::parallel {
namespace {

std::size_t floats_of(const StepCosts& costs, const ShardRange& segments) {
  std::size_t floats = 0;
  for (std::int64_t s = segments.lo; s < segments.hi; ++s)
    floats += costs.segments[static_cast<std::size_t>(s)].floats;
  return floats;
}

// Of pieces whose rule this replica runs.
std::size_t owned_floats(const StepCosts& costs, const ShardRange& segments, int replicas,
                         int replica) {
  kvstore::FlatLayout layout;
  for (std::int64_t s = segments.hi; s-- > segments.lo;)
    for (const GradientCost& gradient : costs.segments[static_cast<std::size_t>(s)].gradients)
      layout.add({.number = layout.parameters.size(), .count = gradient.floats});
  std::size_t floats = 0;
  for (const std::size_t piece : kvstore::PieceOwners(layout, replicas).pieces_of(replica))
    floats += layout.pieces[piece].size();
  return floats;
}

bool have_one_subtree_each(const Placement& placement, std::int64_t shards) {
  const std::vector<ShardRange> ranges = deal_shards(shards, placement.data);
  return std::all_of(ranges.begin(), ranges.end(), [&](const ShardRange& range) {
    return subtrees_in(shards, range).size() == 1;
  });
}

// Partial sums that the canonical order needs at once, by all threads.
std::size_t sum_buffers(const WorkerShape& shape, bool rule_is_local, std::int64_t shards) {
  const bool keeps = !(shape.is_alone && shape.threads == 1 && rule_is_local);
  const std::int64_t own = shape.shards.hi - shape.shards.lo;
  std::size_t count = 0;
  for (const ShardRange& part : deal_shards(own, shape.threads)) {
    const RangePlan plan =
        plan_range(shards, {part.lo + shape.shards.lo, part.hi + shape.shards.lo});
    if (keeps || plan.merges.size() > 1) count += static_cast<std::size_t>(plan.depth);
  }
  return count;
}

// A shard's memory: where it is computed, and what crosses the cuts.
struct ShardBytes {
  std::size_t arena = 0, values = 0;
};
ShardBytes shard_bytes(const StepCosts& costs, const ShardRange& segments) {
  ShardBytes bytes;
  for (std::int64_t s = segments.lo; s < segments.hi; ++s)
    bytes.arena += costs.segments[static_cast<std::size_t>(s)].arena_bytes;
  for (const CrossingCost& value : costs.crossing)
    if (value.lowest < segments.hi && value.highest >= segments.lo) bytes.values += value.bytes;
  return bytes;
}

std::size_t activations_of(const StepCosts& costs, const Placement& placement,
                           const WorkerShape& shape, int stage) {
  const ShardBytes one = shard_bytes(costs, shape.segments);
  std::int64_t under_way = shape.threads;
  if (shape.takes_turns) under_way += shape.threads;
  if (placement.pipeline > 1) {
    const Schedule schedule =
        make_schedule(placement.schedule, placement.pipeline, shape.shards.hi - shape.shards.lo);
    under_way = most_under_way(schedule.stages[static_cast<std::size_t>(stage)]);
  }
  const auto count = static_cast<std::size_t>(under_way);
  return count * one.values + (placement.recompute ? 1 : count) * one.arena;
}

}  // namespace

double StepCosts::shard_seconds() const {
  double seconds = 0.0;
  for (const SegmentCost& segment : segments) seconds += segment.forward_s + segment.backward_s;
  return seconds;
}

std::size_t StepCosts::floats() const {
  return floats_of(*this, {0, static_cast<std::int64_t>(segments.size())});
}

WorkerShape shape_of(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                     const std::vector<int>& hosts, int worker) {
  const int stage = placement.stage_of(worker);
  WorkerShape shape;
  shape.segments = segments_of(placement, stage, static_cast<std::int64_t>(costs.segments.size()));
  shape.shards = shards_of(placement, worker, shards);
  const std::int64_t own = shape.shards.hi - shape.shards.lo;
  shape.threads =
      placement.pipeline > 1 ? 1 : static_cast<int>(std::min<std::int64_t>(placement.threads, own));
  shape.is_alone = placement.workers() == 1;
  for (const int other : placement.same_cell(worker))
    shape.waits_for_links = shape.waits_for_links || hosts[static_cast<std::size_t>(other)] !=
                                                         hosts[static_cast<std::size_t>(worker)];
  shape.has_exchange = !shape.is_alone && buckets_of(costs, shape.segments).size() > 1 &&
                       (shape.threads > 1 || shape.waits_for_links);
  shape.takes_turns = placement.pipeline * placement.tensor == 1 && shape.has_exchange &&
                      shape.waits_for_links && own >= 2 * shape.threads;
  shape.sums_in_place = !shape.is_alone && !shape.waits_for_links &&
                        placement.algorithm != comm::Algorithm::ring &&
                        placement.algorithm != comm::Algorithm::multi_ring &&
                        have_one_subtree_each(placement, shards);
  return shape;
}

std::vector<Bucket> buckets_of(const StepCosts& costs, const ShardRange& segments) {
  std::vector<Bucket> buckets;
  for (std::int64_t s = segments.hi; s-- > segments.lo;)
    for (const GradientCost& gradient : costs.segments[static_cast<std::size_t>(s)].gradients) {
      if (buckets.empty() || buckets.back().floats * sizeof(float) >= costs.bucket_bytes)
        buckets.push_back({});
      buckets.back().floats += gradient.floats;
      buckets.back().segment = static_cast<int>(s);
      buckets.back().at = gradient.at;
    }
  return buckets;
}

StepMemory memory_of(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                     const std::vector<int>& hosts, int worker) {
  const WorkerShape shape = shape_of(costs, placement, shards, hosts, worker);
  const std::size_t floats = floats_of(costs, shape.segments);
  const bool is_shared = placement.shard_state > 0 && placement.data > 1;
  const std::size_t owned =
      is_shared ? owned_floats(costs, shape.segments, placement.data, placement.replica_of(worker))
                : floats;
  StepMemory memory;
  memory.weights = 2 * floats * sizeof(float);
  memory.state = 2 * static_cast<std::size_t>(costs.slots) * owned * sizeof(float);
  memory.gradients = sum_buffers(shape, costs.rule_is_local, shards) * floats * sizeof(float);
  if (!shape.is_alone && !shape.sums_in_place)
    memory.gradients += (is_shared && placement.shard_state >= 2 ? owned : floats) * sizeof(float);
  memory.activations = activations_of(costs, placement, shape, placement.stage_of(worker));
  memory.fixed = costs.table_bytes;
  for (std::int64_t s = shape.segments.lo; s < shape.segments.hi; ++s)
    memory.fixed += costs.segments[static_cast<std::size_t>(s)].fixed_bytes;
  return memory;
}

std::size_t least_bytes(std::size_t floats, int slots, const Placement& placement) {
  const auto owners = static_cast<std::size_t>(placement.shard_state > 0 ? placement.data : 1);
  return (2 + 2 * static_cast<std::size_t>(slots) / owners) * sizeof(float) *
         (floats / static_cast<std::size_t>(placement.pipeline * placement.tensor));
}

}  // namespace lockstep::parallel
