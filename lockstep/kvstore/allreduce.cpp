// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/comm/fold.h"
#include "lockstep/kvstore/compressed_sum.h"

namespace lockstep::kvstore {
namespace {

struct Name {
  std::string_view name;
  comm::Algorithm algorithm;
};
constexpr Name kNames[] = {{"tree", comm::Algorithm::tree},
                           {"ring", comm::Algorithm::ring},
                           {"multi_ring", comm::Algorithm::multi_ring},
                           {"hierarchical", comm::Algorithm::hierarchical},
                           {"central", comm::Algorithm::central},
                           {"native", comm::Algorithm::native}};

// Of what may be as large as a checkpoint: each part has the whole of a call's time.
constexpr std::size_t kPart = 16 << 20;

std::string_view name_of(comm::Algorithm algorithm) {
  for (const Name& entry : kNames)
    if (entry.algorithm == algorithm) return entry.name;
  return "tree";
}

// The worker's own nodes, first to last.
void add_nodes(std::span<const Exchange::Node> nodes, std::span<float> result) {
  std::fill(result.begin(), result.end(), 0.0F);
  const auto bytes = std::as_writable_bytes(result);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto node = std::as_bytes(nodes[n].sum);
    if (n == 0)
      std::memcpy(bytes.data(), node.data(), bytes.size());
    else
      comm::combine(comm::Element::float32, comm::Reduction::sum, bytes.data(), node.data(),
                    bytes.data(), result.size());
  }
}

class AllReduce final : public Exchange {
 public:
  AllReduce(comm::Communicator& communicator, const AllReduceOptions& options)
      : communicator_(communicator),
        options_{options.timeout, options.algorithm},
        compression_(options.compression) {
    if (options.algorithm == comm::Algorithm::native) try_native();
    if (compression_.is_none()) return;
    if (options.algorithm != comm::Algorithm::tree)
      throw InvalidArgument(
          "allreduce: compressed gradients are gathered, not added on their way: expected "
          "algorithm tree, got {}",
          name_of(options.algorithm));
    compressed_.emplace(communicator, compression_, options_);
  }

  int rank() const override { return communicator_.rank(); }
  int workers() const override { return communicator_.size(); }
  bool waits_for_links() const override { return communicator_.topology().size() > 1; }

  void sum(std::span<const Node> nodes, std::int64_t shards, std::size_t offset,
           std::span<float> result) override {
    if (is_invariant()) return sum_tree(nodes, shards, result);
    add_nodes(nodes, result);
    if (compressed_) return compressed_->run(offset, result);
    communicator_.all_reduce(std::as_writable_bytes(result), comm::Element::float32,
                             comm::Reduction::sum, options_);
  }

  std::span<float> memory(std::size_t floats) override {
    if (waits_for_links() || !is_invariant() || !all_ask_for(floats)) return {};
    const auto bytes = communicator_.common_memory(floats * sizeof(float), options_);
    return {reinterpret_cast<float*>(bytes.data()), floats};
  }

  bool is_invariant() const override {
    return compression_.is_none() && is_canonical(options_.algorithm);
  }

  std::string description() const override {
    if (is_invariant()) return "canonical";
    return compressed_ ? to_string(compression_) : std::string(name_of(options_.algorithm));
  }

  std::span<float> residual(std::size_t floats) override {
    return compressed_ ? compressed_->residual(floats) : std::span<float>();
  }

  std::vector<float> collect(std::span<const float> own) override {
    const auto ranks = static_cast<std::size_t>(workers());
    const std::size_t most = std::max<std::size_t>(1, kPart / sizeof(float) / ranks);
    std::vector<float> all(rank() == 0 ? own.size() * ranks : 0);
    for (std::size_t begin = 0; begin < own.size(); begin += most)
      collect_part(own, begin, std::min(most, own.size() - begin), all);
    return all;
  }

  // Ranges differ by one shard at most: everybody sends as many rows as the largest has.
  void gather(std::span<const float> own, std::int64_t shards, std::span<float> all) override {
    const std::vector<ShardRange> ranges = deal_shards(shards, workers());
    std::int64_t most = 0;
    for (const ShardRange& range : ranges) most = std::max(most, range.hi - range.lo);
    const std::size_t row = all.size() / static_cast<std::size_t>(shards);
    const std::size_t part = row * static_cast<std::size_t>(most);
    std::vector<float> sent(part), received(part * ranges.size());
    std::copy(own.begin(), own.end(), sent.begin());
    communicator_.all_gather(std::as_bytes(std::span(sent)),
                             std::as_writable_bytes(std::span(received)), options_);
    for (std::size_t r = 0; r < ranges.size(); ++r)
      std::copy_n(received.data() + r * part,
                  row * static_cast<std::size_t>(ranges[r].hi - ranges[r].lo),
                  all.data() + row * static_cast<std::size_t>(ranges[r].lo));
  }

  std::vector<std::string> share(const std::string& own) override {
    const std::uint64_t length = own.size();
    std::vector<std::uint64_t> lengths(static_cast<std::size_t>(workers()));
    communicator_.all_gather(std::as_bytes(std::span(&length, 1)),
                             std::as_writable_bytes(std::span(lengths)), options_);
    const std::size_t part = *std::max_element(lengths.begin(), lengths.end());
    std::string sent = own, received(part * lengths.size(), '\0');
    sent.resize(part);
    communicator_.all_gather(std::as_bytes(std::span(sent)),
                             std::as_writable_bytes(std::span(received)), options_);
    std::vector<std::string> all;
    for (std::size_t r = 0; r < lengths.size(); ++r)
      all.push_back(received.substr(r * part, lengths[r]));
    return all;
  }

  std::string from_first(const std::string& own) override {
    std::uint64_t length = own.size();
    communicator_.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0, options_);
    std::string bytes = own;
    bytes.resize(length);
    const auto all = std::as_writable_bytes(std::span(bytes));
    for (std::size_t begin = 0; begin < all.size(); begin += kPart)
      communicator_.broadcast(all.subspan(begin, std::min(kPart, all.size() - begin)), 0, options_);
    return bytes;
  }

 private:
  void collect_part(std::span<const float> own, std::size_t begin, std::size_t count,
                    std::vector<float>& all) {
    std::vector<float> parts(all.empty() ? 0 : count * (all.size() / own.size()));
    communicator_.gather(std::as_bytes(own.subspan(begin, count)),
                         std::as_writable_bytes(std::span(parts)), 0, options_);
    for (std::size_t r = 0; r * count < parts.size(); ++r)
      std::copy_n(parts.data() + r * count, count, all.data() + r * own.size() + begin);
  }

  void sum_tree(std::span<const Node> nodes, std::int64_t shards, std::span<float> result) {
    std::vector<comm::TreeNode> own;
    for (const Node& node : nodes)
      own.push_back({node.shards.lo, node.shards.hi, std::as_bytes(node.sum)});
    if (shards != shards_) ranges_ = deal_shards(shards_ = shards, workers());
    communicator_.tree_sum(own, shards, std::as_writable_bytes(result), options_, ranges_);
  }

  // Workers that do not have the same net to train find that out elsewhere.
  bool all_ask_for(std::uint64_t floats) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(workers()));
    communicator_.all_gather(std::as_bytes(std::span(&floats, 1)),
                             std::as_writable_bytes(std::span(all)), options_);
    return std::all_of(all.begin(), all.end(), [&](std::uint64_t of) { return of == floats; });
  }

  // Told before there is any work that would be lost.
  void try_native() {
    float one = 1.0F;
    communicator_.all_reduce(std::as_writable_bytes(std::span(&one, 1)), comm::Element::float32,
                             comm::Reduction::sum, options_);
  }

  comm::Communicator& communicator_;
  comm::CallOptions options_;
  Compression compression_;
  std::optional<CompressedSum> compressed_;
  std::int64_t shards_ = 0;
  std::vector<ShardRange> ranges_;  // of these shards
};

}  // namespace

bool is_canonical(comm::Algorithm algorithm) {
  return algorithm == comm::Algorithm::automatic || algorithm == comm::Algorithm::tree ||
         algorithm == comm::Algorithm::hierarchical || algorithm == comm::Algorithm::central;
}

comm::Algorithm parse_algorithm(std::string_view name) {
  for (const Name& entry : kNames)
    if (entry.name == name) return entry.algorithm;
  throw InvalidArgument(
      "algorithm '{}': expected tree, ring, multi_ring, hierarchical, central or native", name);
}

std::unique_ptr<Exchange> allreduce_exchange(comm::Communicator& communicator,
                                             const AllReduceOptions& options) {
  return std::make_unique<AllReduce>(communicator, options);
}

}  // namespace lockstep::kvstore
