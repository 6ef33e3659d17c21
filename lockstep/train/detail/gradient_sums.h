// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/base/shard_tree.h"
#include "lockstep/kvstore/flat_layout.h"

namespace lockstep::train::detail {

// Adds the gradients of a process's shards in the order of the canonical tree, each thread those of
// its own contiguous range as they arrive, on a stack of buffers of its own.
class GradientSums {
 public:
  using FlatBuffer = kvstore::FlatBuffer;
  using FlatLayout = kvstore::FlatLayout;
  using FlatPiece = kvstore::FlatPiece;

  struct Options {
    // False: nothing but stacks below the last leaf are kept. Whoever calls takes the sum of each
    // parameter as the last leaf completes it (one thread that has all shards).
    bool keep = true;
    // The first node is made here unless it is empty.
    std::span<float> first = {};
    // Sums of a stretch of the layout at a time (look_at), of so many floats at most; 0: of all.
    std::size_t window = 0;
  };
  GradientSums(const FlatLayout& layout, std::int64_t shards, ShardRange range, int threads,
               const Options& options);

  const ShardRange& range_of(int thread) const { return of(thread).range; }
  void begin(int thread);
  // What follows is about a stretch of the layout that begins at this offset.
  void look_at(std::size_t offset) { window_begin_ = offset; }
  // Of a parameter, the thread's shards are added in order.
  void add(int thread, std::int64_t shard, std::size_t parameter, const float* values);
  // The same for the last shard of all. Calls `take` with the sum of each piece of the parameter,
  // in order, while all are finite.
  void add_last(int thread, std::int64_t shard, std::size_t parameter, const float* values,
                const std::function<void(const FlatPiece&, const float*)>& take);

  // What became a NaN or infinite spoils the step.
  bool is_finite() const;
  void spoil(int thread) { of(thread).finite = false; }

  // The sum over this process's shards where they are all shards; uses the thread's scratch.
  const float* whole(int thread, std::size_t offset, std::size_t count);
  // The subtrees of all shards that lie in this process's range, and their sums over a part of the
  // buffers, added from the threads' in place.
  const std::vector<ShardRange>& nodes() const { return nodes_; }
  const float* node(std::size_t number, std::size_t offset, std::size_t count);

  std::size_t bytes() const;

 private:
  struct OfThread {
    ShardRange range{};
    RangePlan plan;
    std::vector<int> depths;  // of the stack, before each leaf
    std::vector<FlatBuffer> stack;
    bool finite = true;
    std::size_t leaf(std::int64_t shard) const {
      return static_cast<std::size_t>(shard - range.lo);
    }
    std::vector<float> scratch = std::vector<float>(optim::kPieceElements);
  };
  OfThread& of(int thread) { return threads_[static_cast<std::size_t>(thread)]; }
  const OfThread& of(int thread) const { return threads_[static_cast<std::size_t>(thread)]; }
  std::vector<const float*> terms(const OfThread& own, std::size_t leaf, std::size_t offset) const;
  std::size_t place(std::size_t offset) const { return offset - window_begin_; }

  const FlatLayout& layout_;
  std::size_t floats_;  // of a buffer
  std::size_t window_begin_ = 0;
  std::vector<OfThread> threads_;
  std::vector<float*> thread_nodes_;        // of all threads, in order
  std::vector<ShardRange> nodes_;           // of the process
  std::vector<std::vector<int>> programs_;  // how a node is made of the threads' nodes
};

}  // namespace lockstep::train::detail
