// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/chunk.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/floats.h"

namespace lockstep::kvstore {
namespace {

// Whether the canonical tree over [0, shards) has this node.
bool is_subtree(std::int64_t shards, ShardRange node) {
  ShardRange at{0, shards};
  while (!(at == node)) {
    if (at.hi - at.lo <= node.hi - node.lo) return false;
    const std::int64_t middle = tree_middle(at.lo, at.hi);
    at = node.lo < middle ? ShardRange{at.lo, middle} : ShardRange{middle, at.hi};
  }
  return true;
}

std::vector<int> program_of(const Chunk& chunk, std::int64_t shards) {
  std::vector<ShardRange> ranges;
  for (const Chunk::Node& node : chunk.nodes()) ranges.push_back(node.shards);
  return plan_rest(shards, ranges);
}

}  // namespace

bool Chunk::has(std::uint32_t worker) const {
  return std::find(workers_.begin(), workers_.end(), worker) != workers_.end();
}

void Chunk::add(std::uint32_t worker, const std::vector<wire::Shards>& nodes, std::int64_t shards,
                Order order, const comm::Payload& payload) {
  std::vector<Node> all = nodes_;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const ShardRange range{nodes[n].lo, nodes[n].hi};
    const bool is_range = 0 <= range.lo && range.lo < range.hi && range.hi <= shards;
    if (!is_range || (order == Order::tree && !is_subtree(shards, range)))
      throw InvalidArgument("worker {}: no sum over shards {} to {} is part of a sum over {}",
                            worker, range.lo, range.hi, shards);
    all.push_back({range, worker, n + 1, payload});
  }
  std::sort(all.begin(), all.end(),
            [](const Node& a, const Node& b) { return a.shards.lo < b.shards.lo; });
  for (std::size_t n = 1; n < all.size(); ++n)
    if (all[n].shards.lo < all[n - 1].shards.hi)
      throw InvalidArgument("worker {}: shard {} is worker {}'s, too", all[n].worker,
                            all[n].shards.lo, all[n - 1].worker);
  nodes_ = std::move(all);
  for (const wire::Shards& node : nodes) covered_ += node.hi - node.lo;
  workers_.push_back(worker);
}

ChunkSum::ChunkSum(const Chunk& chunk, std::int64_t shards)
    : chunk_(chunk),
      fold_(program_of(chunk, shards), comm::Element::float32, comm::Reduction::sum),
      scratch_(chunk.nodes().size()),
      sources_(chunk.nodes().size()) {}

void ChunkSum::run(std::size_t begin, std::span<float> to) {
  for (std::size_t n = 0; n < sources_.size(); ++n) {
    const Chunk::Node& node = chunk_.nodes()[n];
    const float* floats = floats_at(node.payload, node.part, begin, to.size(), scratch_[n]);
    sources_[n] = reinterpret_cast<const std::byte*>(floats);
  }
  fold_.run(sources_, std::as_writable_bytes(to).data(), to.size());
}

}  // namespace lockstep::kvstore
