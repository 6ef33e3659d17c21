// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/tree_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep::train {
namespace {

// Subtrees of [lo, hi) that lie inside `range` and in no larger one that does.
void collect_nodes(std::int64_t lo, std::int64_t hi, ShardRange range,
                   std::vector<ShardRange>& nodes) {
  if (hi <= range.lo || lo >= range.hi) return;
  if (lo >= range.lo && hi <= range.hi) {
    nodes.push_back({lo, hi});
    return;
  }
  const std::int64_t mid = tree_middle(lo, hi);
  collect_nodes(lo, mid, range, nodes);
  collect_nodes(mid, hi, range, nodes);
}

// Merges that become due after each leaf of the subtree: one for each inner node that ends there.
void collect_merges(std::int64_t lo, std::int64_t hi, int due, std::vector<int>& merges) {
  if (hi - lo == 1) {
    merges.push_back(due);
    return;
  }
  const std::int64_t mid = tree_middle(lo, hi);
  collect_merges(lo, mid, 0, merges);
  collect_merges(mid, hi, due + 1, merges);
}

void collect_rest(std::int64_t lo, std::int64_t hi, std::span<const ShardRange> nodes,
                  std::vector<int>& program) {
  const auto node = std::find(nodes.begin(), nodes.end(), ShardRange{lo, hi});
  if (node != nodes.end()) {
    program.push_back(static_cast<int>(node - nodes.begin()));
    return;
  }
  const std::int64_t mid = tree_middle(lo, hi);
  collect_rest(lo, mid, nodes, program);
  collect_rest(mid, hi, nodes, program);
  program.push_back(kAdd);
}

constexpr std::uint32_t kExponent = 0x7f800000u;

// The clones differ in vector width alone: each element is one exact addition.
__attribute__((target_clones("avx512f", "avx2", "default"))) bool all_finite(const float* values,
                                                                             std::size_t count) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bad |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

__attribute__((target_clones("avx512f", "avx2", "default"))) void add_to(const float* a,
                                                                         const float* b,
                                                                         float* target,
                                                                         std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = a[i] + b[i];
}

}  // namespace

std::int64_t tree_middle(std::int64_t lo, std::int64_t hi) {
  return lo + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(hi - lo - 1)));
}

std::vector<ShardRange> deal_shards(std::int64_t shards, std::int64_t owners) {
  std::vector<ShardRange> ranges;
  for (std::int64_t i = 0; i < owners; ++i)
    ranges.push_back({shards * i / owners, shards * (i + 1) / owners});
  return ranges;
}

RangePlan plan_range(std::int64_t shards, ShardRange range) {
  RangePlan plan;
  collect_nodes(0, shards, range, plan.nodes);
  for (const ShardRange& node : plan.nodes) {
    collect_merges(node.lo, node.hi, 0, plan.merges);
    plan.completes.resize(plan.merges.size(), false);
    plan.completes.back() = true;
  }
  int depth = 0;
  for (int merges : plan.merges) {
    depth += 1 - merges;
    plan.depth = std::max(plan.depth, depth);
  }
  return plan;
}

std::vector<int> plan_rest(std::int64_t shards, std::span<const ShardRange> nodes) {
  std::vector<int> program;
  collect_rest(0, shards, nodes, program);
  return program;
}

bool add_leaf(std::span<const float> leaf, std::span<const float* const> terms, float* target,
              bool check) {
  constexpr std::size_t kTile = 2048;  // stays in the first-level cache
  float sum[kTile];
  bool finite = true;
  for (std::size_t begin = 0; begin < leaf.size(); begin += kTile) {
    const std::size_t count = std::min(kTile, leaf.size() - begin);
    const float* right = leaf.data() + begin;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      float* to = t + 1 == terms.size() ? target + begin : sum;
      add_to(terms[t] + begin, right, to, count);
      right = to;
    }
    if (terms.empty()) std::memcpy(target + begin, right, count * sizeof(float));
    if (check) finite &= all_finite(target + begin, count);
  }
  return finite;
}
}  // namespace lockstep::train
