// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/tree.h"

#include <algorithm>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/comm/fold.h"

// The reduction whose bits do not depend on who owns which shards. The elements are cut into one
// slice for each rank. Every rank sends its nodes' part of a slice to the slice's owner, who adds
// all nodes in the order of the canonical tree (lockstep/base/shard_tree.h) and sends the sum to
// everybody. That is a reduce-scatter and an all-gather: each rank sends and receives what a ring
// would, in two hops instead of 2(n - 1), and a rank with several nodes sends that much more. The
// slices go in chunks, and the nodes of some chunks are under way while an earlier one is added, so
// that a link need not wait for the adding nor for its own delay. Between two ranks the order is:
// the nodes of the first kAhead chunks, then in turn the sums of a chunk and the nodes of one
// further on. What is shorter than a few packets goes to everybody at once, and everybody adds it
// all.
namespace lockstep::comm {
namespace {

constexpr std::size_t kSmall = 4096;        // bytes; below, one hop is worth more than the adding
constexpr std::size_t kRound = 512 * 1024;  // bytes that arrive for a chunk, about
constexpr std::size_t kAhead = 4;           // chunks under way
constexpr std::size_t kLast = std::numeric_limits<std::size_t>::max();  // turn

// What belongs to the owners for good is cut into equal parts, or as they say.
std::vector<ElementRanges> cut_for(const TreeGoal& goal, std::size_t elements, int parts) {
  if (!goal.slices.empty()) return {goal.slices.begin(), goal.slices.end()};
  std::vector<ElementRanges> slices;
  if (goal.kind != TreeGoal::Kind::owner) {
    for (const ElementRange& slice : split_evenly(elements, parts)) slices.push_back({slice});
    return slices;
  }
  const std::size_t count = elements / static_cast<std::size_t>(parts);
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i)
    slices.push_back({{i * count, (i + 1) * count}});
  return slices;
}

class TreeReduction {
 public:
  TreeReduction(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                const TreeGoal& goal)
      : call_(call),
        tree_(tree),
        goal_(goal),
        size_(element_size(tree.element)),
        slices_(cut_for(goal, tree.result.size() / size_, call.size())),
        fold_(plan_rest(tree.shards, collect_nodes(ranges)), tree.element, tree.reduction) {}

  void run() {
    if (goal_.kind == TreeGoal::Kind::all && tree_.result.size() <= kSmall) return run_small();
    const std::size_t width = std::max<std::size_t>(kRound / (nodes() + 1) / 64 * 64, 1024);
    const std::size_t chunk = std::max<std::size_t>(width / size_, 1);
    const std::size_t longest = longest_slice();
    const std::size_t chunks = (longest + chunk - 1) / chunk;
    resize_buffers(chunk, std::min(kAhead, chunks));
    for (std::size_t i = 0; i < std::min(kAhead, chunks); ++i) bring_nodes(i, chunk);
    for (std::size_t i = 0; i < chunks; ++i) {
      exchange_.run_turn(call_, i);
      add(i, chunk);
      bring_sums(i, chunk);
      if (i + kAhead < chunks) bring_nodes(i + kAhead, chunk);
    }
    exchange_.run(call_);
  }

 private:
  std::vector<ShardRange> collect_nodes(std::span<const ShardRange> ranges) {
    std::vector<ShardRange> nodes;
    for (const ShardRange& range : ranges) {
      first_.push_back(nodes.size());
      const std::vector<ShardRange> of_rank = subtrees_in(tree_.shards, range);
      nodes.insert(nodes.end(), of_rank.begin(), of_rank.end());
    }
    first_.push_back(nodes.size());
    return nodes;
  }

  std::size_t nodes() const { return first_.back(); }
  std::size_t me() const { return static_cast<std::size_t>(call_.rank()); }
  // A rank's part of the chunk of that number.
  ElementRanges part(int rank, std::size_t number, std::size_t chunk) const {
    return subranges(slices_[static_cast<std::size_t>(rank)], number * chunk, chunk);
  }
  ElementRanges own_part(std::size_t number, std::size_t chunk) const {
    return part(call_.rank(), number, chunk);
  }
  bool is_mine(std::size_t node) const { return node >= first_[me()] && node < first_[me() + 1]; }

  std::size_t longest_slice() const {
    std::size_t longest = 0;
    for (const ElementRanges& slice : slices_) longest = std::max(longest, count_elements(slice));
    return longest;
  }

  void resize_buffers(std::size_t chunk, std::size_t ahead) {
    stride_ = (nodes() - (first_[me() + 1] - first_[me()])) * chunk * size_;
    received_.resize(stride_ * ahead);
    offsets_.resize(nodes());
    sources_.resize(nodes());
    for (std::size_t node = 0, place = 0; node < nodes(); ++node)
      if (!is_mine(node)) offsets_[node] = chunk * size_ * place++;
    const bool keeps = goal_.kind == TreeGoal::Kind::one && goal_.root != call_.rank();
    if (keeps) own_sums_.resize(count_elements(slices_[me()]) * size_);
  }

  // Where a peer's node arrives for the chunk of that number.
  std::byte* place(std::size_t node, std::size_t number) {
    return received_.data() + number % kAhead * stride_ + offsets_[node];
  }

  std::span<std::byte> bytes(std::byte* base, const ElementRange& part) const {
    return {base + part.begin * size_, part.count() * size_};
  }
  std::span<const std::byte> bytes(const std::byte* base, const ElementRange& part) const {
    return {base + part.begin * size_, part.count() * size_};
  }

  // Where the sum of this part goes, which is element number `place` of this rank's slice.
  std::byte* own_target(const ElementRange& part, std::size_t place) {
    if (goal_.kind == TreeGoal::Kind::owner) return goal_.part + place * size_;
    if (!own_sums_.empty()) return own_sums_.data() + place * size_;
    return tree_.result.data() + part.begin * size_;
  }

  // The nodes' part of a chunk of every slice: out to the owners, in from everybody.
  void bring_nodes(std::size_t number, std::size_t chunk) {
    const std::size_t own = count_elements(own_part(number, chunk)) * size_;
    for (const int peer : others(call_)) {
      const ElementRanges parts = part(peer, number, chunk);
      for (const std::byte* node : tree_.nodes)
        for (const ElementRange& one : parts) exchange_.send(peer, bytes(node, one));
      const auto from = static_cast<std::size_t>(peer);
      for (std::size_t node = first_[from]; node < first_[from + 1]; ++node)
        exchange_.receive(peer, {place(node, number), own}, number);
    }
  }

  void add(std::size_t number, std::size_t chunk) {
    std::size_t done = 0;  // of the chunk
    for (const ElementRange& own : own_part(number, chunk)) {
      for (std::size_t node = 0; node < nodes(); ++node)
        if (!is_mine(node)) sources_[node] = place(node, number) + done * size_;
      for (std::size_t i = 0; i < tree_.nodes.size(); ++i)
        sources_[first_[me()] + i] = tree_.nodes[i] + own.begin * size_;
      fold_.run(sources_, own_target(own, number * chunk + done), own.count());
      done += own.count();
    }
  }

  void bring_sums(std::size_t number, std::size_t chunk) {
    if (goal_.kind == TreeGoal::Kind::owner) return;
    const ElementRanges own = own_part(number, chunk);
    const bool all = goal_.kind == TreeGoal::Kind::all;
    for (const int peer : others(call_)) {
      if (all || peer == goal_.root) send_sums(peer, own, number * chunk);
      if (all || call_.rank() == goal_.root)
        for (const ElementRange& one : part(peer, number, chunk))
          exchange_.receive(peer, bytes(tree_.result.data(), one), kLast);
    }
  }

  void send_sums(int peer, const ElementRanges& own, std::size_t place) {
    for (const ElementRange& one : own) {
      exchange_.send(peer, {own_target(one, place), one.count() * size_});
      place += one.count();
    }
  }

  void run_small() {
    const std::size_t count = tree_.result.size() / size_;
    resize_buffers(count, 1);
    for (const int peer : others(call_)) {
      for (const std::byte* node : tree_.nodes) exchange_.send(peer, {node, tree_.result.size()});
      const auto from = static_cast<std::size_t>(peer);
      for (std::size_t node = first_[from]; node < first_[from + 1]; ++node)
        exchange_.receive(peer, {place(node, 0), tree_.result.size()});
    }
    exchange_.run(call_);
    for (std::size_t node = 0; node < nodes(); ++node)
      if (!is_mine(node)) sources_[node] = place(node, 0);
    for (std::size_t i = 0; i < tree_.nodes.size(); ++i)
      sources_[first_[me()] + i] = tree_.nodes[i];
    fold_.run(sources_, tree_.result.data(), count);
  }

  const Call& call_;
  const TreeCall& tree_;
  TreeGoal goal_;
  std::size_t size_;
  std::vector<ElementRanges> slices_;  // by rank
  std::vector<std::size_t> first_;     // each rank's first node, and the number of all
  Fold fold_;
  std::vector<std::byte> received_;   // kAhead chunks of all nodes of others
  std::size_t stride_ = 0;            // of a chunk there
  std::vector<std::size_t> offsets_;  // of a node in a chunk
  std::vector<std::byte> own_sums_;
  std::vector<const std::byte*> sources_;  // of the chunk at hand, by node
  Exchange exchange_;
};

}  // namespace

void tree_reduce(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                 const TreeGoal& goal) {
  if (!tree.result.empty() || !goal.slices.empty()) TreeReduction(call, tree, ranges, goal).run();
}

std::vector<ShardRange> exchange_ranges(const Call& call, std::int64_t shards, ShardRange range) {
  std::vector<ShardRange> ranges(static_cast<std::size_t>(call.size()));
  ranges[static_cast<std::size_t>(call.rank())] = range;
  Exchange exchange;
  for (const int peer : others(call)) {
    exchange.send(peer, std::as_bytes(std::span(&range, 1)));
    exchange.receive(peer,
                     std::as_writable_bytes(std::span(&ranges[static_cast<std::size_t>(peer)], 1)));
  }
  exchange.run(call);
  check_ranges(call.operation, shards, ranges);
  return ranges;
}

void check_ranges(std::string_view operation, std::int64_t shards,
                  std::span<const ShardRange> ranges) {
  std::int64_t next = 0;
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    const ShardRange& range = ranges[rank];
    if (range.lo == range.hi) continue;
    if (range.lo != next || range.hi < range.lo)
      throw InvalidArgument("{}: rank {} has shards {} to {}, expected some that begin at {}",
                            operation, rank, range.lo, range.hi, next);
    next = range.hi;
  }
  if (next != shards)
    throw InvalidArgument("{}: the ranks have {} shards together, expected {}", operation, next,
                          shards);
}

std::vector<ShardRange> rank_ranges(int size) { return deal_shards(size, size); }

}  // namespace lockstep::comm
