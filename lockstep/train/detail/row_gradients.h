// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "lockstep/base/thread_team.h"
#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/kvstore/row_sums.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train::detail {

// Adds the gradients of rows of a process's shards: first each shard's own, by the thread that has
// computed it, then those of its subtrees in the order of the canonical tree.
class RowGradients {
 public:
  RowGradients(const kvstore::FlatLayout& layout, std::int64_t shards, ShardRange range);

  void begin() { std::fill(finite_.begin(), finite_.end(), 1); }
  // A shard's ids and rows, lookup by lookup; `lookups` tells their tables. What several lookups
  // give a row is added in their order. Threads may take different shards at once.
  void take(std::int64_t shard, std::span<const std::size_t> lookups,
            std::span<const Tensor> ids_and_rows);
  // By table, the sums of the subtrees of all shards that lie in this process's range.
  std::vector<std::vector<kvstore::RowNode>> nodes(ThreadTeam& team);
  // Whether those of a table, or of all, were.
  bool is_finite(std::size_t table) const { return finite_[table] != 0; }
  bool is_finite() const;

 private:
  std::vector<kvstore::RowNode> nodes_of(std::size_t table);

  const std::vector<kvstore::RowTable>& tables_;
  ShardRange range_;
  std::vector<ShardRange> nodes_;
  std::vector<std::vector<kvstore::RowSums>> sums_;  // by shard of our own, by table
  std::vector<char> finite_;                         // by table
};

}  // namespace lockstep::train::detail
