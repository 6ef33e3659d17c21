// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/compressed_sum.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// Sums over the workers of a job of what each has of the gradients, in the order and on the way
// that its options say.
class WorkerSum {
 public:
  // What is given lives longer. Every worker makes one.
  WorkerSum(comm::Communicator& communicator, const Group& group, const AllReduceOptions& options,
            const FlatLayout& layout, std::int64_t shards);

  bool is_canonical() const { return is_canonical_; }
  // Whether each float's sum can be made by one worker, for itself alone.
  bool can_scatter() const;
  bool waits_for_links() const { return communicator_.topology().size() > 1; }

  // Of a step; what is left of one that was not committed counts for nothing.
  void begin();
  // Of the floats from `offset` on, to every worker.
  void run(std::span<const Synchronizer::Node> nodes, std::size_t offset, std::span<float> sum);
  // Of those in parts[rank], from `offset` on, to that worker: one after the other.
  void scatter(std::span<const Synchronizer::Node> nodes,
               std::span<const comm::ElementRanges> parts, std::span<float> own);
  void commit() noexcept;

  // Where workers see each other's memory, and each has one node, its sum can be made there; else
  // empty. Every worker calls it.
  std::span<float> common_memory();
  std::span<float> residual();
  bool keeps_residual() const { return compressed_ && compressed_->keeps_residual(); }
  const comm::CallOptions& call_options() const { return options_; }

 private:
  bool all_have_one_node() const;
  bool all_have_this_layout();
  std::vector<comm::TreeNode> tree_nodes(std::span<const Synchronizer::Node> nodes) const;
  void clear_unused(std::size_t offset, std::span<float> sum);

  comm::Communicator& communicator_;
  comm::CallOptions options_;
  bool is_canonical_;
  const FlatLayout& layout_;
  std::int64_t shards_;
  std::vector<ShardRange> ranges_;  // by rank
  std::optional<CompressedSum> compressed_;
};

}  // namespace lockstep::kvstore
