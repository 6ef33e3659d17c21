// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/hierarchical.h"

#include <algorithm>

#include "lockstep/comm/algorithms/tree.h"
#include "lockstep/comm/sub_transport.h"

// For links inside a host that are faster than those between hosts. The ranks of a host reduce to
// all of them; then the data is cut into as many slices as the smallest host has ranks, and the
// first ranks of all hosts reduce the first slice between them, the second ranks the second, and so
// on; then the ranks of a host give each other their slices. So a link between two hosts carries
// each byte once each way, and all ranks of a host work for it. When the ranks of a host are
// neighbours, which launchers see to, the shards of a host are one range: its subtrees are added
// inside the host, each a smaller canonical tree, and the rest between hosts, so the order and the
// bits are those of `tree`. Otherwise, and where it would save nothing, this is `tree`.
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

// One host's part of the work.
class TwoLevels {
 public:
  TwoLevels(const Call& call, Transport& inside, const TreeCall& tree,
            const std::vector<std::vector<int>>& hosts, std::size_t here)
      : call_(call),
        inside_{inside, call.deadline, call.operation},
        tree_(tree),
        hosts_(hosts),
        here_(here) {
    std::size_t lanes = hosts[0].size();
    for (const std::vector<int>& host : hosts) lanes = std::min(lanes, host.size());
    slices_ =
        split_evenly(tree.result.size() / element_size(tree.element), static_cast<int>(lanes));
  }

  void run(std::span<const ShardRange> ranges, std::span<const ShardRange> of_hosts) {
    const std::vector<ShardRange> nodes = subtrees_in(tree_.shards, of_hosts[here_]);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      // A single sum needs no place of its own.
      if (nodes.size() > 1) kept_.emplace_back(tree_.result.size());
      sums_.push_back(nodes.size() > 1 ? std::span(kept_.back()) : tree_.result);
      reduce_node(nodes[i], ranges, sums_.back());
    }
    if (lane() < slices_.size()) reduce_between(of_hosts);
    share();
  }

 private:
  std::size_t lane() const { return static_cast<std::size_t>(inside_.rank()); }

  std::span<std::byte> part(std::span<std::byte> whole, std::size_t lane) const {
    const std::size_t size = element_size(tree_.element);
    return whole.subspan(slices_[lane].begin * size, slices_[lane].count() * size);
  }

  // Inside the host: the sum of one of its subtrees.
  void reduce_node(const ShardRange& node, std::span<const ShardRange> ranges,
                   std::span<std::byte> sum) const {
    std::vector<ShardRange> clipped;
    for (const int rank : hosts_[here_])
      clipped.push_back(clip(ranges[static_cast<std::size_t>(rank)], node));
    const std::vector<ShardRange> mine = subtrees_in(tree_.shards, tree_.range);
    std::vector<const std::byte*> parts;
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (mine[i].lo >= node.lo && mine[i].hi <= node.hi) parts.push_back(tree_.nodes[i]);
    const TreeCall call{tree_.element, tree_.reduction, node.hi - node.lo, clipped[lane()], parts,
                        sum,           clipped};
    if (!inside_.transport.tree_reduce(call, inside_.deadline, inside_.operation))
      tree_reduce(inside_, call, clipped);
  }

  void reduce_between(std::span<const ShardRange> of_hosts) {
    std::vector<int> ranks;
    for (const std::vector<int>& host : hosts_) ranks.push_back(host[lane()]);
    std::vector<const std::byte*> nodes;
    for (const std::span<std::byte> sum : sums_) nodes.push_back(part(sum, lane()).data());
    SubTransport between(call_.transport, ranks);
    const TreeCall rest{tree_.element,   tree_.reduction, tree_.shards,
                        of_hosts[here_], nodes,           part(tree_.result, lane())};
    tree_reduce({between, call_.deadline, call_.operation}, rest, of_hosts);
  }

  void share() {
    Exchange exchange;
    for (const int peer : others(inside_)) {
      const auto theirs = static_cast<std::size_t>(peer);
      if (lane() < slices_.size()) exchange.send(peer, part(tree_.result, lane()));
      if (theirs < slices_.size()) exchange.receive(peer, part(tree_.result, theirs));
    }
    exchange.run(inside_);
  }

  const Call& call_;
  Call inside_;
  const TreeCall& tree_;
  const std::vector<std::vector<int>>& hosts_;
  std::size_t here_;
  std::vector<ElementRange> slices_;
  std::vector<std::vector<std::byte>> kept_;
  std::vector<std::span<std::byte>> sums_;  // of the host's subtrees
};

std::size_t host_of(const std::vector<std::vector<int>>& hosts, int rank) {
  const auto has = [&](const std::vector<int>& host) {
    return std::count(host.begin(), host.end(), rank) > 0;
  };
  return static_cast<std::size_t>(std::find_if(hosts.begin(), hosts.end(), has) - hosts.begin());
}

}  // namespace

void hierarchical_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                         const std::vector<std::vector<int>>& hosts, Transport* inside) {
  const std::vector<ShardRange> of_hosts = host_ranges(ranges, hosts);
  const bool is_flat = hosts.size() == 1 || hosts.size() == ranges.size();
  if (of_hosts.empty() || is_flat || tree.result.empty()) return tree_reduce(call, tree, ranges);
  const std::size_t here = host_of(hosts, call.rank());
  SubTransport own(call.transport, hosts[here]);
  TwoLevels(call, inside != nullptr ? *inside : own, tree, hosts, here).run(ranges, of_hosts);
}

}  // namespace lockstep::comm
