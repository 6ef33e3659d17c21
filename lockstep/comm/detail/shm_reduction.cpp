// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lockstep/comm/algorithms/call.h"
#include "lockstep/comm/algorithms/tree.h"
#include "lockstep/comm/detail/shm_pair.h"
#include "lockstep/comm/detail/shm_signature.h"

// A reduction in the canonical tree's order by ranks that see each other's memory. The data goes in
// chunks that stay in the second-level cache. A rank copies its nodes' part of a chunk to its stage
// and says so; the others read it there. On little data each rank adds everything: one hop. On more
// they cut the chunk into slices: each adds its own slice and leaves the sum on every stage, in the
// place from which it has just read, so that a cache line travels twice between two cores and not
// four times. There are several stages, so that a rank stages the next chunk before it waits for
// the others to have staged this one. A stage is free again when all have finished with the chunk.
// Data that lies in the group's own memory needs no stages: each rank adds its slice of the whole
// where the others have it, and leaves the sum there. Two ranks with a core each do the three
// things in one pass (shm_pair.cpp).
namespace lockstep::comm {
namespace {

constexpr std::size_t kSliced = 32 * 1024;  // bytes; from here on slices pay
constexpr std::size_t kDirect = 16 * 1024;  // bytes; from here on it pays to look where data lies
constexpr std::size_t kChunk = 128 * 1024;  // bytes of a node in a chunk, to stay in the cache

using Counter = std::atomic<std::uint64_t> ShmRank::*;

void await(const ShmCall& call, Counter counter, std::uint64_t chunk) {
  const auto blocker = [&] {
    for (int rank = 0; rank < call.size; ++rank)
      if (rank != call.rank && (call.segment.rank(rank).*counter).load() < chunk) return rank;
    return -1;
  };
  call.waiter.wait(blocker, call.deadline, call.operation);
}

void publish(const ShmCall& call, Counter counter, std::uint64_t chunk) {
  call.waiter.publish(call.segment.rank(call.rank).*counter, chunk);
}

// How many nodes a range can have at most.
std::size_t most_nodes(std::int64_t shards) {
  return static_cast<std::size_t>(2 * std::bit_width(static_cast<std::uint64_t>(shards)));
}

class ShmReduction {
 public:
  ShmReduction(const ShmCall& call, const TreeCall& tree, ShmProgress& progress)
      : call_(call),
        tree_(tree),
        progress_(progress),
        size_(element_size(tree.element)),
        count_(tree.result.size() / size_),
        signature_{tree.result.size(), 0} {}

  void run() {
    if (tree_.ranges.empty()) return run_unknown();
    plan(tree_.ranges);
    signature_.plan = progress_.plan;
    if (tree_.result.size() < kDirect) return run_chunks();
    show();
    if (share(call_.rank).result == 0) return run_chunks();
    shm_barrier(call_, progress_, signature_);
    check_memory();
    run_direct();
  }

 private:
  std::uint64_t number(std::size_t chunk) const { return progress_.chunk + 1 + chunk; }
  std::size_t me() const { return static_cast<std::size_t>(call_.rank); }

  void run_unknown() {
    signature_.plan = hash_plan(tree_, {});
    if (most_nodes(tree_.shards) * tree_.result.size() <= kStageBytes) return run_at_once();
    show();
    shm_barrier(call_, progress_, signature_);
    plan(read_ranges());
    const bool direct = ranks_with_memory() == call_.size;
    shown_ = false;  // whoever has none goes over the stages with everybody
    direct ? run_direct() : run_chunks();
  }

  ShmRank::Share& share(int rank) const {
    return call_.segment.rank(rank).shares[progress_.calls % 2];
  }

  void show() {
    ++progress_.calls;
    shown_ = true;
    share(call_.rank) = {tree_.range, 0, 0};
    if (tree_.nodes.size() != 1 || call_.size == 1) return;
    const std::uint64_t node = call_.memory.place_of(tree_.nodes[0], tree_.result.size());
    const std::uint64_t result = call_.memory.place_of(tree_.result.data(), tree_.result.size());
    if (node != 0 && result != 0) share(call_.rank) = {tree_.range, node, result};
  }

  std::vector<ShardRange> read_ranges() const {
    std::vector<ShardRange> ranges;
    for (int rank = 0; rank < call_.size; ++rank) ranges.push_back(share(rank).range);
    return ranges;
  }

  int ranks_with_memory() const {
    int count = 0;
    for (int rank = 0; rank < call_.size; ++rank) count += share(rank).result != 0 ? 1 : 0;
    return count;
  }

  // Who knew the ranges did not ask where the others have their data: it is here or there for all.
  void check_memory() const {
    const int count = shown_ ? ranks_with_memory() : 0;
    if (count == 0 || count == call_.size) return;
    fail_all(call_, fmt::format("{} of {} ranks have their data in the group's memory, expected "
                                "all or none",
                                count, call_.size));
  }

  // All others have begun the call, and nothing of the result is written yet.
  void check_call(std::uint64_t number) const {
    compare_signatures(call_, number, signature_);
    check_memory();
  }

  void plan(std::span<const ShardRange> ranges) {
    ShmProgress& p = progress_;
    const bool same = p.fold && p.shards == tree_.shards && p.element == tree_.element &&
                      p.reduction == tree_.reduction &&
                      std::equal(ranges.begin(), ranges.end(), p.ranges.begin(), p.ranges.end());
    if (same) return;
    check_ranges(call_.operation, tree_.shards, ranges);
    p.shards = tree_.shards;
    p.element = tree_.element;
    p.reduction = tree_.reduction;
    p.ranges.assign(ranges.begin(), ranges.end());
    p.first.clear();
    std::vector<ShardRange> nodes;
    for (const ShardRange& range : ranges) {
      p.first.push_back(nodes.size());
      const std::vector<ShardRange> of_rank = subtrees_in(tree_.shards, range);
      nodes.insert(nodes.end(), of_rank.begin(), of_rank.end());
    }
    p.first.push_back(nodes.size());
    p.fold.emplace(plan_rest(tree_.shards, nodes), tree_.element, tree_.reduction);
    p.plan = hash_plan(tree_, ranges);
  }

  // Little data and a range that the others do not know yet travel together.
  void run_at_once() {
    width_ = count_;
    sliced_ = false;
    show();
    stage(0);
    await(call_, &ShmRank::staged, number(0));
    compare_signatures(call_, number(0), signature_);
    const std::vector<ShardRange> ranges = read_ranges();
    try {
      plan(ranges);
    } catch (...) {
      finish(1);
      throw;
    }
    add(0);
    finish(1);
  }

  void finish(std::size_t chunks) {
    publish(call_, &ShmRank::finished, number(chunks) - 1);
    progress_.chunk += chunks;
  }

  void run_chunks() {
    std::size_t most = 1;
    for (std::size_t rank = 0; rank + 1 < progress_.first.size(); ++rank)
      most = std::max(most, progress_.first[rank + 1] - progress_.first[rank]);
    sliced_ = call_.size > 1 && tree_.result.size() >= kSliced;
    const bool is_pair = call_.size == 2 && most == 1 && progress_.first.back() == 2;
    if (sliced_ && is_pair && !call_.segment.is_crowded())
      return shm_pair_reduce(call_, tree_, progress_, signature_,
                             [this] { check_call(number(0)); });
    // Where ranks share cores each wait costs a change of process: fewer waits, longer chunks.
    const std::size_t wanted = call_.segment.is_crowded() ? kStageBytes : kChunk;
    const std::size_t bytes = std::min(wanted, kStageBytes / most) / 64 * 64;
    width_ = std::max<std::size_t>(bytes / size_, 1);
    const std::size_t chunks = (count_ + width_ - 1) / width_;
    for (std::size_t turn = 0; turn < chunks + (sliced_ ? 2 : 1); ++turn) {
      if (turn < chunks) stage(turn);
      if (turn >= 1 && turn <= chunks) reduce(turn - 1);
      if (turn >= 2 && sliced_) collect(turn - 2);
    }
    progress_.chunk += chunks;
  }

  void run_direct() {
    const ElementRange own = slice({0, count_}, call_.rank);
    const std::size_t begin = own.begin * size_;
    for (int rank = 0; rank < call_.size; ++rank) {
      sources_.push_back(call_.memory.at(rank, share(rank).node) + begin);
      if (rank != call_.rank) copies_.push_back(call_.memory.at(rank, share(rank).result) + begin);
    }
    progress_.fold->run(sources_, tree_.result.data() + begin, own.count(), copies_);
    shm_barrier(call_, progress_, signature_);
  }

  ElementRange part(std::size_t chunk) const {
    return subrange({0, count_}, chunk * width_, width_);
  }

  // A rank's slice of a chunk, from the chunk's first element on.
  ElementRange slice(const ElementRange& chunk, int rank) const {
    const auto lines = [&](int i) {
      const std::size_t share =
          chunk.count() * static_cast<std::size_t>(i) / static_cast<std::size_t>(call_.size);
      return i == call_.size ? chunk.count() : share / 64 * 64;
    };
    return {lines(rank), lines(rank + 1)};
  }

  void stage(std::size_t chunk) {
    const std::uint64_t number = this->number(chunk);
    if (number > kStages) await(call_, &ShmRank::finished, number - kStages);
    const ElementRange whole = part(chunk);
    const ElementRange own = sliced_ ? slice(whole, call_.rank) : ElementRange{0, 0};
    std::byte* to = call_.segment.stage(call_.rank, number);
    for (const std::byte* node : tree_.nodes) {
      const std::byte* from = node + whole.begin * size_;
      std::memcpy(to, from, own.begin * size_);
      std::memcpy(to + own.end * size_, from + own.end * size_, (whole.count() - own.end) * size_);
      to += width_ * size_;
    }
    if (chunk == 0) write_signature(call_, number, signature_);
    publish(call_, &ShmRank::staged, number);
  }

  void reduce(std::size_t chunk) {
    await(call_, &ShmRank::staged, number(chunk));
    if (chunk == 0) check_call(number(0));
    add(chunk);
    publish(call_, sliced_ ? &ShmRank::reduced : &ShmRank::finished, number(chunk));
  }

  void add(std::size_t chunk) {
    const ElementRange whole = part(chunk);
    const ElementRange own = sliced_ ? slice(whole, call_.rank) : ElementRange{0, whole.count()};
    sources_.clear();
    for (int rank = 0; rank < call_.size; ++rank) add_sources(rank, chunk, own.begin);
    std::byte* to = tree_.result.data() + (whole.begin + own.begin) * size_;
    copies_.clear();
    for (int rank = 0; sliced_ && rank < call_.size; ++rank)
      if (rank != call_.rank)
        copies_.push_back(call_.segment.stage(rank, number(chunk)) + own.begin * size_);
    progress_.fold->run(sources_, to, own.count(), copies_);
  }

  // Where a rank's nodes lie: its own in the caller's memory, the others' on their stages.
  void add_sources(int rank, std::size_t chunk, std::size_t begin) {
    const auto r = static_cast<std::size_t>(rank);
    const std::byte* stage = call_.segment.stage(rank, number(chunk));
    for (std::size_t i = 0; i < progress_.first[r + 1] - progress_.first[r]; ++i)
      sources_.push_back(r == me() ? tree_.nodes[i] + (part(chunk).begin + begin) * size_
                                   : stage + (i * width_ + begin) * size_);
  }

  void collect(std::size_t chunk) {
    await(call_, &ShmRank::reduced, number(chunk));
    const ElementRange whole = part(chunk), own = slice(whole, call_.rank);
    const std::byte* from = call_.segment.stage(call_.rank, number(chunk));
    std::byte* to = tree_.result.data() + whole.begin * size_;
    std::memcpy(to, from, own.begin * size_);
    std::memcpy(to + own.end * size_, from + own.end * size_, (whole.count() - own.end) * size_);
    publish(call_, &ShmRank::finished, number(chunk));
  }

  const ShmCall& call_;
  const TreeCall& tree_;
  ShmProgress& progress_;
  std::size_t size_;
  std::size_t count_;
  ShmSignature signature_;
  std::size_t width_ = 0;  // elements of a chunk
  bool sliced_ = false;
  bool shown_ = false;  // where the data lies, and the others have not been asked
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> copies_;
};

}  // namespace

void shm_tree_reduce(const ShmCall& call, const TreeCall& tree, ShmProgress& progress) {
  ShmReduction(call, tree, progress).run();
}

// A chunk of which nothing is staged.
void shm_barrier(const ShmCall& call, ShmProgress& progress, const ShmSignature& signature) {
  const std::uint64_t number = ++progress.chunk;
  ShmRank& own = call.segment.rank(call.rank);
  own.finished.store(number);
  own.reduced.store(number);
  write_signature(call, number, signature);
  publish(call, &ShmRank::staged, number);
  await(call, &ShmRank::staged, number);
  compare_signatures(call, number, signature);
}

}  // namespace lockstep::comm
