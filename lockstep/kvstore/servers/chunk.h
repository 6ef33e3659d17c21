// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/comm/fold.h"
#include "lockstep/comm/messages/message_server.h"
#include "lockstep/kvstore/servers/table_messages.h"

namespace lockstep::kvstore {

// Floats of a table whose sums travel together, in one round: what each worker has given of them,
// and who waits for the whole. A worker that gives twice has given once.
class Chunk {
 public:
  explicit Chunk(std::size_t count = 0) : count_(count) {}

  std::size_t count() const { return count_; }
  std::size_t pieces = 0;
  bool finite = true;
  bool is_updated = false;

  bool has(std::uint32_t worker) const;
  // Parts 1, 2, ... of the payload are the sums of the nodes: of the canonical tree over `shards`,
  // or of any ranges. Throws InvalidArgument where they are not, or somebody has given them.
  enum class Order { tree, any };
  void add(std::uint32_t worker, const std::vector<wire::Shards>& nodes, std::int64_t shards,
           Order order, const comm::Payload& payload);
  bool is_complete(std::int64_t shards) const { return covered_ == shards; }

  // A sum that somebody gave, and where it is.
  struct Node {
    ShardRange shards;
    std::uint32_t worker;
    std::size_t part;
    comm::Payload payload;
  };
  // In the order of shards.
  const std::vector<Node>& nodes() const { return nodes_; }
  // The sum is made: what was given is not needed any more.
  void let_go() { nodes_ = {}; }
  bool is_summed = false;

  std::vector<comm::MessageEvent> waiting;

 private:
  std::size_t count_;
  std::int64_t covered_ = 0;  // shards
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> workers_;
};

// What one thread needs to add up the nodes of a complete chunk, piece by piece.
class ChunkSum {
 public:
  ChunkSum(const Chunk& chunk, std::int64_t shards);
  // The floats from `begin` on.
  void run(std::size_t begin, std::span<float> to);

 private:
  const Chunk& chunk_;
  comm::Fold fold_;
  std::vector<std::vector<float>> scratch_;
  std::vector<const std::byte*> sources_;
};

}  // namespace lockstep::kvstore
