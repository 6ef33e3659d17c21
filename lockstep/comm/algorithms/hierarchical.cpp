// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/hierarchical.h"

#include <algorithm>

#include "lockstep/comm/algorithms/movement.h"
#include "lockstep/comm/algorithms/tree.h"
#include "lockstep/comm/sub_transport.h"

// For links inside a host that are faster than those between hosts. The ranks of a host reduce to
// its first rank; the first ranks reduce between hosts; each gives the result to its host. When the
// ranks of a host are neighbours, which launchers see to, the shards of a host are one range: its
// subtrees are added inside the host, each a smaller canonical tree, and the rest between hosts, so
// the order and the bits are those of `tree`. Otherwise, and where it would save nothing, this is
// `tree`.
namespace lockstep::comm {
namespace {

// Empty ranges are neighbours of everything.
bool join(ShardRange& host, const ShardRange& range) {
  if (range.lo == range.hi) return true;
  if (host.lo == host.hi) {
    host = range;
    return true;
  }
  if (host.hi != range.lo) return false;
  host.hi = range.hi;
  return true;
}

// Nothing when a host's shards are not one range.
std::vector<ShardRange> host_ranges(std::span<const ShardRange> ranges,
                                    const std::vector<std::vector<int>>& hosts) {
  std::vector<ShardRange> joined;
  for (const std::vector<int>& host : hosts) {
    ShardRange whole{0, 0};
    for (const int rank : host)
      if (!join(whole, ranges[static_cast<std::size_t>(rank)])) return {};
    joined.push_back(whole);
  }
  return joined;
}

ShardRange clip(const ShardRange& range, const ShardRange& node) {
  const std::int64_t lo = std::clamp(range.lo, node.lo, node.hi) - node.lo;
  const std::int64_t hi = std::clamp(range.hi, node.lo, node.hi) - node.lo;
  return {lo, std::max(lo, hi)};
}

// Inside the host: the sum of one of its subtrees, at its first rank.
void reduce_node(const Call& inside, const TreeCall& tree, const ShardRange& node,
                 std::span<const ShardRange> ranges, std::span<std::byte> result) {
  std::vector<ShardRange> clipped;
  for (const ShardRange& range : ranges) clipped.push_back(clip(range, node));
  const std::vector<ShardRange> mine = subtrees_in(tree.shards, tree.range);
  std::vector<const std::byte*> sums;
  for (std::size_t i = 0; i < mine.size(); ++i)
    if (mine[i].lo >= node.lo && mine[i].hi <= node.hi) sums.push_back(tree.nodes[i]);
  const TreeCall part{tree.element,
                      tree.reduction,
                      node.hi - node.lo,
                      clipped[static_cast<std::size_t>(inside.rank())],
                      sums,
                      result};
  tree_reduce(inside, part, clipped, {TreeGoal::Kind::one, 0, nullptr});
}

}  // namespace

void hierarchical_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                         const std::vector<std::vector<int>>& hosts) {
  const std::vector<ShardRange> of_hosts = host_ranges(ranges, hosts);
  const bool is_flat = hosts.size() == 1 || hosts.size() == ranges.size();
  if (of_hosts.empty() || is_flat) return tree_reduce(call, tree, ranges);

  std::vector<int> leaders;
  std::size_t mine = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    leaders.push_back(hosts[host].front());
    if (std::count(hosts[host].begin(), hosts[host].end(), call.rank()) > 0) mine = host;
  }
  SubTransport host_transport(call.transport, hosts[mine]);
  const Call inside{host_transport, call.deadline, call.operation};
  std::vector<ShardRange> members;
  for (const int rank : hosts[mine]) members.push_back(ranges[static_cast<std::size_t>(rank)]);
  std::vector<std::vector<std::byte>> sums;
  for (const ShardRange& node : subtrees_in(tree.shards, of_hosts[mine])) {
    sums.emplace_back(tree.result.size());
    reduce_node(inside, tree, node, members, sums.back());
  }
  if (call.rank() == leaders[mine]) {
    SubTransport between(call.transport, leaders);
    std::vector<const std::byte*> nodes;
    for (const auto& sum : sums) nodes.push_back(sum.data());
    const TreeCall rest{tree.element,   tree.reduction, tree.shards,
                        of_hosts[mine], nodes,          tree.result};
    tree_reduce({between, call.deadline, call.operation}, rest, of_hosts);
  }
  broadcast(inside, tree.result, 0);
}

}  // namespace lockstep::comm
