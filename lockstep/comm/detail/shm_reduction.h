// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/comm/detail/shm_memory.h"
#include "lockstep/comm/detail/shm_waiter.h"
#include "lockstep/comm/fold.h"

namespace lockstep::comm {

struct ShmCall {
  const ShmSegment& segment;
  ShmWaiter& waiter;
  const ShmMemory& memory;
  int rank, size;
  Deadline deadline;
  std::string_view operation;
};

// What a rank keeps from call to call.
struct ShmProgress {
  std::uint64_t chunk = 0;  // the last one
  std::uint64_t calls = 0;  // that showed their shares
  // The plan of the last reduction; the next one usually has the same.
  std::int64_t shards = 0;
  Element element = Element::float32;
  Reduction reduction = Reduction::sum;
  std::vector<ShardRange> ranges;
  std::vector<std::size_t> first;  // each rank's first node, and the number of all
  std::optional<Fold> fold;
  std::uint64_t plan = 0;  // its hash
};

void shm_tree_reduce(const ShmCall& call, const TreeCall& tree, ShmProgress& progress);
void shm_barrier(const ShmCall& call, ShmProgress& progress,
                 const ShmSignature& signature = {0, 0});

}  // namespace lockstep::comm
