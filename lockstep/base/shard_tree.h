// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

// The canonical tree over shards [0, S): sum(lo, hi) is the leaf when hi - lo = 1, else
// sum(lo, mid) + sum(mid, hi) with mid - lo the largest power of two below hi - lo. Whoever owns a
// contiguous range of shards adds the subtrees that lie in it; the rest is added in the same order
// afterwards, so the result does not depend on the ranges.
std::int64_t tree_middle(std::int64_t lo, std::int64_t hi);

struct ShardRange {
  std::int64_t lo, hi;
  bool operator==(const ShardRange&) const = default;
};

// Even, contiguous ranges of `shards` for each of `owners`.
std::vector<ShardRange> deal_shards(std::int64_t shards, std::int64_t owners);

// The subtrees of [0, shards) that lie inside `range` and in no larger one that does, in order.
std::vector<ShardRange> subtrees_in(std::int64_t shards, ShardRange range);

// How one owner adds up its range as leaves arrive in order, on a stack of buffers: leaf number i
// is added to the top `merges[i]` buffers, innermost first, and lands in the lowest of them; 0: it
// lands in a new one. What is left on the stack at the end are the sums of `nodes`.
struct RangePlan {
  std::vector<int> merges;
  std::vector<bool> completes;  // whether the leaf completes a node
  std::vector<ShardRange> nodes;
  int depth = 0;  // buffers needed
};
RangePlan plan_range(std::int64_t shards, ShardRange range);

// How the owners' nodes become the whole: numbers are places in the list of all nodes, in order;
// kAdd takes the last two sums and leaves theirs.
inline constexpr int kAdd = -1;
std::vector<int> plan_rest(std::int64_t shards, std::span<const ShardRange> nodes);
// The same for the subtree `whole` alone, whose nodes these are.
std::vector<int> plan_subtree(ShardRange whole, std::span<const ShardRange> nodes);

}  // namespace lockstep
