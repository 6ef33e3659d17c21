// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/base/shard_tree.h"

namespace lockstep::kvstore {

// What one worker's training run needs of the others. Every worker makes the same calls in the
// same order, from one thread at a time. Errors are comm's: they name the worker that is missed.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int workers() const = 0;
  // Whether bytes go over a network, so that there is time for something else meanwhile.
  virtual bool waits_for_links() const = 0;

  // The sum of a subtree of shards (base/shard_tree.h) that lies in this worker's range.
  struct Node {
    ShardRange shards;
    std::span<const float> sum;
  };
  // The canonical sum over all shards, from each worker's nodes: the same bits on every worker.
  virtual void sum(std::span<const Node> nodes, std::int64_t shards, std::span<float> result) = 0;
  // A row of floats for each shard: this worker's rows in, everybody's out, in the order of shards.
  virtual void gather(std::span<const float> own, std::int64_t shards, std::span<float> all) = 0;
  // Each worker's bytes, in the order of ranks.
  virtual std::vector<std::string> share(const std::string& own) = 0;
};

// Which shards a worker computes: even, contiguous ranges in the order of ranks.
inline ShardRange range_of(const Exchange& exchange, std::int64_t shards) {
  return deal_shards(shards, exchange.workers())[static_cast<std::size_t>(exchange.rank())];
}

}  // namespace lockstep::kvstore
