// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/kvstore/mesh_links.h"
#include "lockstep/ops/slice_ops.h"

namespace lockstep::train::detail {

// Where a computing thread meets those that compute the same shards' other slices. All of them come
// to the same meetings in the same order: that of the step's graph.
class LinkedSlices final : public SliceMeeting {
 public:
  // The communicator is the thread's own, and outlives it.
  LinkedSlices(comm::Communicator& communicator, std::int64_t slices,
               const comm::CallOptions& options);

  void sum(std::span<const std::span<const float>> own, std::span<float> result) override;
  void gather(std::span<std::byte> all, std::span<const std::size_t> sizes) override;

 private:
  comm::Communicator& communicator_;
  std::int64_t slices_;
  comm::CallOptions options_;
  std::vector<ShardRange> ranges_;    // of slices, by rank
  std::vector<ShardRange> subtrees_;  // of this worker's
  std::vector<std::vector<float>> sums_;
};

}  // namespace lockstep::train::detail
