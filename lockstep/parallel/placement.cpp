// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/placement.h"

#include <fmt/core.h>

#include <numeric>

namespace lockstep::parallel {

std::vector<int> Placement::same_cell(int worker) const {
  std::vector<int> ranks;
  for (int replica = 0; replica < data; ++replica)
    ranks.push_back(rank_of(replica, stage_of(worker), place_of(worker)));
  return ranks;
}

std::vector<int> Placement::whole_replica(int replica) const {
  std::vector<int> ranks(static_cast<std::size_t>(pipeline * tensor));
  std::iota(ranks.begin(), ranks.end(), rank_of(replica, 0, 0));
  return ranks;
}

std::vector<int> Placement::same_stage(int replica, int stage) const {
  std::vector<int> ranks(static_cast<std::size_t>(tensor));
  std::iota(ranks.begin(), ranks.end(), rank_of(replica, stage, 0));
  return ranks;
}

std::string to_string(const Placement& placement) {
  std::string text = fmt::format("data {} x pipeline {}", placement.data, placement.pipeline);
  if (placement.tensor > 1) text += fmt::format(" x tensor {}", placement.tensor);
  if (placement.shard_state > 0) text += fmt::format(", state stage {}", placement.shard_state);
  if (placement.recompute) text += ", recompute";
  return text;
}

ShardRange segments_of(const Placement& placement, int stage, std::int64_t segments) {
  return deal_shards(segments, placement.pipeline)[static_cast<std::size_t>(stage)];
}

ShardRange shards_of(const Placement& placement, int worker, std::int64_t shards) {
  return deal_shards(shards,
                     placement.data)[static_cast<std::size_t>(placement.replica_of(worker))];
}

}  // namespace lockstep::parallel
