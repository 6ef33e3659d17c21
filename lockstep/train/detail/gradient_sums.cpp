// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/gradient_sums.h"

#include <utility>

#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::train::detail {
namespace {

// Even parts of a process's range.
std::vector<ShardRange> deal_range(ShardRange range, int threads) {
  std::vector<ShardRange> parts = deal_shards(range.hi - range.lo, threads);
  for (ShardRange& part : parts) part = {part.lo + range.lo, part.hi + range.lo};
  return parts;
}

void add_two(const float* left, const float* right, float* target, std::size_t count) {
  const float* one[] = {left};
  kvstore::add_leaf({right, count}, one, target, false);
}

std::vector<int> depths_of(const RangePlan& plan) {
  std::vector<int> depths;
  int depth = 0;
  for (const int merges : plan.merges) {
    depths.push_back(depth);
    depth += 1 - merges;
  }
  return depths;
}

}  // namespace

GradientSums::GradientSums(const FlatLayout& layout, std::int64_t shards, ShardRange range,
                           int threads, const Options& options)
    : layout_(layout),
      floats_(options.window > 0 ? options.window : layout.floats),
      nodes_(subtrees_in(shards, range)) {
  std::span<float> first = options.first;
  std::vector<ShardRange> of_threads;
  for (const ShardRange& part : deal_range(range, threads)) {
    OfThread own;
    own.range = part;
    own.plan = plan_range(shards, part);
    own.depths = depths_of(own.plan);
    const int depth = options.keep || own.plan.merges.size() > 1 ? own.plan.depth : 0;
    for (int i = 0; i < depth; ++i)
      if (!first.empty())
        own.stack.emplace_back(std::exchange(first, {}));
      else
        own.stack.emplace_back(floats_);
    of_threads.insert(of_threads.end(), own.plan.nodes.begin(), own.plan.nodes.end());
    threads_.push_back(std::move(own));
  }
  for (const OfThread& own : threads_)
    for (std::size_t i = 0; i < own.plan.nodes.size(); ++i)
      thread_nodes_.push_back(own.stack.empty() ? nullptr : own.stack[i].data());
  for (const ShardRange& node : nodes_) programs_.push_back(plan_subtree(node, of_threads));
}

void GradientSums::begin(int thread) { of(thread).finite = true; }

// The sums on top of the stack that the leaf is added to, innermost first.
std::vector<const float*> GradientSums::terms(const OfThread& own, std::size_t leaf,
                                              std::size_t offset) const {
  std::vector<const float*> result;
  for (int m = 0; m < own.plan.merges[leaf]; ++m)
    result.push_back(own.stack[static_cast<std::size_t>(own.depths[leaf] - 1 - m)].data() +
                     place(offset));
  return result;
}

void GradientSums::add(int thread, std::int64_t shard, std::size_t parameter, const float* values) {
  OfThread& own = of(thread);
  const std::size_t leaf = own.leaf(shard);
  const kvstore::FlatParameter& where = layout_.parameters[parameter];
  const auto level = static_cast<std::size_t>(own.depths[leaf] - own.plan.merges[leaf]);
  float* target = own.stack[level].data() + place(where.offset);
  own.finite &= kvstore::add_leaf({values, where.count}, terms(own, leaf, where.offset), target,
                                  own.plan.completes[leaf]);
}

void GradientSums::add_last(int thread, std::int64_t shard, std::size_t parameter,
                            const float* values,
                            const std::function<void(const FlatPiece&, const float*)>& take) {
  OfThread& own = of(thread);
  const kvstore::FlatParameter& where = layout_.parameters[parameter];
  for (const FlatPiece& piece : layout_.pieces_in(where.offset, where.count)) {
    if (!own.finite) return;
    own.finite &=
        kvstore::add_leaf({values + piece.range.begin, piece.size()},
                          terms(own, own.leaf(shard), piece.offset), own.scratch.data(), true);
    if (own.finite) take(piece, own.scratch.data());
  }
}

bool GradientSums::is_finite() const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [](const OfThread& own) { return own.finite; });
}

// Intermediate sums go to the scratch; where it is taken, to a buffer that lives until the end.
const float* GradientSums::whole(int thread, std::size_t offset, std::size_t count) {
  float* scratch = of(thread).scratch.data();
  std::vector<const float*> sums;
  std::vector<std::vector<float>> spare;
  for (int word : programs_[0]) {
    if (word != kAdd) {
      sums.push_back(thread_nodes_[static_cast<std::size_t>(word)] + place(offset));
      continue;
    }
    const float* right = sums.back();
    sums.pop_back();
    const bool taken = std::find(sums.begin(), sums.end() - 1, scratch) != sums.end() - 1;
    float* target = taken ? spare.emplace_back(count).data() : scratch;
    add_two(sums.back(), right, target, count);
    sums.back() = target;
  }
  if (!spare.empty() && sums[0] != scratch) std::copy_n(sums[0], count, scratch);
  return spare.empty() ? sums[0] : scratch;
}

const float* GradientSums::node(std::size_t number, std::size_t offset, std::size_t count) {
  std::vector<float*> sums;
  for (int word : programs_[number]) {
    if (word != kAdd) {
      sums.push_back(thread_nodes_[static_cast<std::size_t>(word)] + place(offset));
      continue;
    }
    const float* right = sums.back();
    sums.pop_back();
    add_two(sums.back(), right, sums.back(), count);
  }
  return sums[0];
}

std::size_t GradientSums::bytes() const {
  std::size_t count = 0;
  for (const OfThread& own : threads_) count += own.stack.size();
  return count * floats_ * sizeof(float);
}

}  // namespace lockstep::train::detail
