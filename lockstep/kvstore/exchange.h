// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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

  // The sum of a subtree of shards (base/shard_tree.h) that lies in this worker's range (range_of).
  struct Node {
    ShardRange shards;
    std::span<const float> sum;
  };
  // The sum over all shards, from each worker's nodes: the same bits on every worker. `offset` is
  // the place of these floats among all that are summed in a step; what is not sent of them now is
  // kept under it.
  virtual void sum(std::span<const Node> nodes, std::int64_t shards, std::size_t offset,
                   std::span<float> result) = 0;
  // The exchange's own memory, in which a node and its result may be the same floats and sum() has
  // less to copy; empty where nothing is gained. Whoever asks gets the same memory, for the time of
  // a step. Every worker asks, for as many floats, and either all give nodes from it or none does.
  virtual std::span<float> memory(std::size_t) { return {}; }
  // A row of floats for each shard: this worker's rows in, everybody's out, in the order of shards.
  virtual void gather(std::span<const float> own, std::int64_t shards, std::span<float> all) = 0;
  // Each worker's bytes, in the order of ranks.
  virtual std::vector<std::string> share(const std::string& own) = 0;
  // Rank 0's bytes; those of the others count for nothing.
  virtual std::string from_first(const std::string& own) {
    return share(rank() == 0 ? own : "").front();
  }

  // Whether sum() has the canonical order, and so the same bits for any number of workers.
  virtual bool is_invariant() const { return true; }
  // What its bits depend on: "canonical", "ring", "2bit:0.01".
  virtual std::string description() const { return "canonical"; }
  // Of this worker: what was not sent of each of the first so many floats, by offset. Empty where
  // everything is sent. It may be changed between calls.
  virtual std::span<float> residual(std::size_t) { return {}; }
  // Everybody's floats, as many of each, one worker's after the other: at rank 0, nothing
  // elsewhere.
  virtual std::vector<float> collect(std::span<const float>) { return {}; }
};

// Rank 0 does something for all, such as reading a file that the others cannot see: its result is
// everybody's, and so is its error, which the others get as Aborted. Without an exchange there is
// only rank 0.
std::string first_does(Exchange* exchange, const std::function<std::string()>& work);

// Which shards a worker computes: even, contiguous ranges in the order of ranks.
inline ShardRange range_of(const Exchange& exchange, std::int64_t shards) {
  return deal_shards(shards, exchange.workers())[static_cast<std::size_t>(exchange.rank())];
}

}  // namespace lockstep::kvstore
