// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/algorithms/call.h"

namespace lockstep::comm {

// Where the sums of the slices go when their owners have made them.
struct TreeGoal {
  enum class Kind { all, one, owner };
  Kind kind = Kind::all;
  int root = 0;               // of `one`
  std::byte* part = nullptr;  // of `owner`: where this rank's slice goes
  // Of `owner`: the slices, by rank. None: equal parts.
  std::span<const ElementRanges> slices = {};
};

// Reduces in the canonical tree's order; `ranges` are all ranks'.
void tree_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                 const TreeGoal& goal = {});

// What every rank owns. Throws InvalidArgument, on all ranks, when these are not all shards in
// order.
std::vector<ShardRange> exchange_ranges(const Call& call, std::int64_t shards, ShardRange range);
void check_ranges(std::string_view operation, std::int64_t shards,
                  std::span<const ShardRange> ranges);

// One shard for each rank: an all_reduce is a tree sum over these.
std::vector<ShardRange> rank_ranges(int size);

}  // namespace lockstep::comm
