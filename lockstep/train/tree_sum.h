// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::train {

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

// target[i] = terms.back()[i] + (... + (terms[0][i] + leaf[i])). Without terms: a copy. Target may
// be one of the terms. With `check`, returns whether all sums are finite; a term that is not shows
// in every sum above it.
bool add_leaf(std::span<const float> leaf, std::span<const float* const> terms, float* target,
              bool check);

}  // namespace lockstep::train
