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
  int tensor = 1;    // workers that share the slices of a stage
  int threads = 1;   // of a worker
  int shard_state = 0;
  bool recompute = false;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  comm::Algorithm algorithm = comm::Algorithm::tree;

  int workers() const { return data * pipeline * tensor; }
  // As kvstore's mesh links number them.
  int place_of(int worker) const { return worker % tensor; }
  int stage_of(int worker) const { return worker / tensor % pipeline; }
  int replica_of(int worker) const { return worker / (pipeline * tensor); }
  int rank_of(int replica, int stage, int place) const {
    return (replica * pipeline + stage) * tensor + place;
  }
  // Those with its stage and slices, by replica; its whole replica; those with its stage there.
  std::vector<int> same_cell(int worker) const;
  std::vector<int> whole_replica(int replica) const;
  std::vector<int> same_stage(int replica, int stage) const;
  bool operator==(const Placement&) const = default;
};

// "data 2 x pipeline 2 x tensor 2, recompute": without the tensor where it is 1.
std::string to_string(const Placement& placement);

// Which segments a stage has, and which shards a replica.
ShardRange segments_of(const Placement& placement, int stage, std::int64_t segments);
ShardRange shards_of(const Placement& placement, int worker, std::int64_t shards);

}  // namespace lockstep::parallel
