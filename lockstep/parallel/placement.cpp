// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/placement.h"

#include <fmt/core.h>

namespace lockstep::parallel {

std::vector<int> Placement::same_stage(int stage) const {
  std::vector<int> ranks;
  for (int replica = 0; replica < data; ++replica) ranks.push_back(replica * pipeline + stage);
  return ranks;
}

std::string to_string(const Placement& placement) {
  std::string text = fmt::format("data {} x pipeline {}", placement.data, placement.pipeline);
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
