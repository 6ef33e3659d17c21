// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/allreduce.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

class AllReduce final : public Exchange {
 public:
  AllReduce(comm::Communicator& communicator, const comm::CallOptions& options)
      : communicator_(communicator), options_(options) {}

  int rank() const override { return communicator_.rank(); }
  int workers() const override { return communicator_.size(); }
  bool waits_for_links() const override { return communicator_.topology().size() > 1; }

  void sum(std::span<const Node> nodes, std::int64_t shards, std::span<float> result) override {
    std::vector<comm::TreeNode> own;
    for (const Node& node : nodes)
      own.push_back({node.shards.lo, node.shards.hi, std::as_bytes(node.sum)});
    communicator_.tree_sum(own, shards, std::as_writable_bytes(result), options_);
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

 private:
  comm::Communicator& communicator_;
  comm::CallOptions options_;
};

}  // namespace

std::unique_ptr<Exchange> allreduce_exchange(comm::Communicator& communicator,
                                             const comm::CallOptions& options) {
  return std::make_unique<AllReduce>(communicator, options);
}

}  // namespace lockstep::kvstore
