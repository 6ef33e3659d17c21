// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/shard_tree.h"

#include <algorithm>
#include <bit>

namespace lockstep {
namespace {

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

std::vector<ShardRange> subtrees_in(std::int64_t shards, ShardRange range) {
  std::vector<ShardRange> nodes;
  collect_nodes(0, shards, range, nodes);
  return nodes;
}

RangePlan plan_range(std::int64_t shards, ShardRange range) {
  RangePlan plan;
  plan.nodes = subtrees_in(shards, range);
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
  return plan_subtree({0, shards}, nodes);
}

std::vector<int> plan_subtree(ShardRange whole, std::span<const ShardRange> nodes) {
  std::vector<int> program;
  collect_rest(whole.lo, whole.hi, nodes, program);
  return program;
}

}  // namespace lockstep
