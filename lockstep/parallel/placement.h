// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/schedule.h"

namespace lockstep::parallel {

// Who computes which cells of a mesh, and what workers have together. It changes no bit.
struct Placement {
  int data = 1;      // replicas
  int pipeline = 1;  // workers that share the segments of a replica
  int threads = 1;   // of a worker
  int shard_state = 0;
  bool recompute = false;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  comm::Algorithm algorithm = comm::Algorithm::tree;

  int workers() const { return data * pipeline; }
  // As kvstore's stage links number them.
  int stage_of(int worker) const { return worker % pipeline; }
  int replica_of(int worker) const { return worker / pipeline; }
  std::vector<int> same_stage(int stage) const;
  bool operator==(const Placement&) const = default;
};

// "data 2 x pipeline 2, state stage 1, recompute".
std::string to_string(const Placement& placement);

// Which segments a stage has, and which shards a replica.
ShardRange segments_of(const Placement& placement, int stage, std::int64_t segments);
ShardRange shards_of(const Placement& placement, int worker, std::int64_t shards);

}  // namespace lockstep::parallel
