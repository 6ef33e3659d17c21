// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/central.h"

#include <algorithm>

#include "lockstep/comm/fold.h"

// Everybody sends its nodes to rank 0, which adds them in the canonical tree's order and sends the
// sum back. Rank 0's link carries everything, so this is for few ranks, for small data, or for a
// rank 0 that has the only good link. In chunks, as everywhere.
namespace lockstep::comm {
namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;

void serve(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges) {
  const std::size_t size = element_size(tree.element), chunk = kChunkBytes / size;
  std::vector<ShardRange> nodes;
  std::vector<int> owner;
  for (std::size_t rank = 0; rank < ranges.size(); ++rank)
    for (const ShardRange& node : subtrees_in(tree.shards, ranges[rank])) {
      nodes.push_back(node);
      owner.push_back(static_cast<int>(rank));
    }
  Fold fold(plan_rest(tree.shards, nodes), tree.element, tree.reduction);
  std::vector<std::byte> received(nodes.size() * kChunkBytes);
  std::vector<const std::byte*> sources(nodes.size());
  Exchange exchange;
  for (std::size_t begin = 0; begin < tree.result.size() / size; begin += chunk) {
    const ElementRange part = subrange({0, tree.result.size() / size}, begin, chunk);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::byte* place = received.data() + i * kChunkBytes;
      sources[i] = owner[i] == 0 ? tree.nodes[i] + part.begin * size : place;
      if (owner[i] != 0) exchange.receive(owner[i], {place, part.count() * size});
    }
    exchange.run(call);
    const auto sum = tree.result.subspan(part.begin * size, part.count() * size);
    fold.run(sources, sum.data(), part.count());
    for (const int peer : others(call)) exchange.send(peer, sum);
  }
  exchange.run(call);
}

void ask(const Call& call, const TreeCall& tree) {
  Exchange exchange;
  for (std::size_t begin = 0; begin < tree.result.size(); begin += kChunkBytes) {
    const std::size_t count = std::min(kChunkBytes, tree.result.size() - begin);
    for (const std::byte* node : tree.nodes) exchange.send(0, {node + begin, count});
    exchange.run(call);
    exchange.receive(0, tree.result.subspan(begin, count));
  }
  exchange.run(call);
}

}  // namespace

void central_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges) {
  if (call.rank() == 0)
    serve(call, tree, ranges);
  else
    ask(call, tree);
}

}  // namespace lockstep::comm
