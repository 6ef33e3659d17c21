// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/worker_sum.h"

#include <algorithm>

#include "lockstep/kvstore/node_sum.h"

namespace lockstep::kvstore {

WorkerSum::WorkerSum(comm::Communicator& communicator, const Group& group,
                     const AllReduceOptions& options, const FlatLayout& layout, std::int64_t shards)
    : communicator_(communicator),
      options_{options.timeout, options.algorithm},
      is_canonical_(options.compression.is_none() && kvstore::is_canonical(options.algorithm)),
      layout_(layout),
      shards_(shards),
      ranges_(group.membership().deal(shards)) {
  if (!options.compression.is_none())
    compressed_.emplace(communicator, options.compression, options_);
}

bool WorkerSum::can_scatter() const {
  using comm::Algorithm;
  return is_canonical_ &&
         (options_.algorithm == Algorithm::tree || options_.algorithm == Algorithm::automatic);
}

void WorkerSum::begin() {
  if (compressed_) compressed_->begin(layout_.floats);
}

void WorkerSum::run(std::span<const Synchronizer::Node> nodes, std::size_t offset,
                    std::span<float> sum) {
  if (is_canonical_)
    return communicator_.tree_sum(tree_nodes(nodes), shards_, std::as_writable_bytes(sum), options_,
                                  ranges_);
  add_nodes(nodes, sum);
  if (compressed_) {
    compressed_->run(offset, sum);
    return clear_unused(offset, sum);
  }
  communicator_.all_reduce(std::as_writable_bytes(sum), comm::Element::float32,
                           comm::Reduction::sum, options_);
}

void WorkerSum::scatter(std::span<const Synchronizer::Node> nodes,
                        std::span<const comm::ElementRanges> parts, std::span<float> own) {
  communicator_.tree_scatter(tree_nodes(nodes), shards_, parts, std::as_writable_bytes(own),
                             options_, ranges_);
}

void WorkerSum::commit() noexcept {
  if (compressed_) compressed_->commit();
}

std::vector<comm::TreeNode> WorkerSum::tree_nodes(std::span<const Synchronizer::Node> nodes) const {
  std::vector<comm::TreeNode> own;
  for (const Synchronizer::Node& node : nodes)
    own.push_back({node.shards.lo, node.shards.hi, std::as_bytes(node.sum)});
  return own;
}

// Compressed gradients may say something where there is nothing; it would grow there.
void WorkerSum::clear_unused(std::size_t offset, std::span<float> sum) {
  if (!keeps_residual()) return;
  const std::span<float> left = compressed_->next_residual();
  const std::vector<std::size_t>& unused = layout_.unused;
  for (auto place = std::lower_bound(unused.begin(), unused.end(), offset);
       place != unused.end() && *place < offset + sum.size(); ++place)
    left[*place] = sum[*place - offset] = 0.0F;
}

std::span<float> WorkerSum::residual() {
  return compressed_ ? compressed_->residual(layout_.floats) : std::span<float>();
}

std::span<float> WorkerSum::common_memory() {
  if (waits_for_links() || !is_canonical_ || !all_have_one_node() || !all_have_this_layout())
    return {};
  const auto bytes = communicator_.common_memory(layout_.floats * sizeof(float), options_);
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

bool WorkerSum::all_have_one_node() const {
  return std::all_of(ranges_.begin(), ranges_.end(), [&](const ShardRange& range) {
    return subtrees_in(shards_, range).size() == 1;
  });
}

// Workers that do not have the same net to train find that out elsewhere.
bool WorkerSum::all_have_this_layout() {
  const std::uint64_t floats = layout_.floats;
  std::vector<std::uint64_t> all(ranges_.size());
  communicator_.all_gather(std::as_bytes(std::span(&floats, 1)),
                           std::as_writable_bytes(std::span(all)), options_);
  return std::all_of(all.begin(), all.end(), [&](std::uint64_t of) { return of == floats; });
}

}  // namespace lockstep::kvstore
