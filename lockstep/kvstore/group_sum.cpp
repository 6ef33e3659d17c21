// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/group_sum.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/fold.h"
#include "lockstep/comm/transports/in_process.h"

namespace lockstep::kvstore {
namespace {

// The sum of the subtree `node` of values that begin at `first`.
void sum_node(const std::vector<std::span<const float>>& values, std::int64_t first,
              ShardRange node, std::span<float> result) {
  std::vector<ShardRange> leaves;
  std::vector<const std::byte*> sources;
  for (std::int64_t leaf = node.lo; leaf < node.hi; ++leaf) {
    leaves.push_back({leaf, leaf + 1});
    const auto& value = values[static_cast<std::size_t>(leaf - first)];
    sources.push_back(std::as_bytes(value).data());
  }
  comm::Fold fold(plan_subtree(node, leaves), comm::Element::float32, comm::Reduction::sum);
  fold.run(sources, std::as_writable_bytes(result).data(), result.size());
}

// What a worker is about to do, or why it cannot.
struct Intent {
  bool refuses = false;
  std::uint64_t number = 0;
  std::string text;

  std::string to_bytes() const {
    std::string bytes(1 + sizeof number, '\0');
    bytes[0] = static_cast<char>(refuses);
    std::memcpy(bytes.data() + 1, &number, sizeof number);
    return bytes + text;
  }
  static Intent from_bytes(const std::string& bytes) {
    Intent intent;
    check(bytes.size() >= 1 + sizeof number, "an intent of a worker is cut");
    intent.refuses = bytes[0] != 0;
    std::memcpy(&intent.number, bytes.data() + 1, sizeof number);
    intent.text = bytes.substr(1 + sizeof number);
    return intent;
  }
};

[[noreturn]] void throw_refusal(const comm::Communicator& communicator, std::size_t rank,
                                const std::string& why) {
  const int who = static_cast<int>(rank);
  throw comm::Aborted(fmt::format("kvstore: worker {} gave up: {}", rank, why), who,
                      communicator.host(who), "kvstore");
}

}  // namespace

void sum_in_tree(const std::vector<std::span<const float>>& values, std::span<float> result) {
  sum_node(values, 0, {0, static_cast<std::int64_t>(values.size())}, result);
}

GroupSum::GroupSum(comm::Communicator* communicator) : communicator_(communicator) {
  if (communicator_ == nullptr) {
    in_process_ = std::make_unique<comm::InProcessGroup>(std::vector<std::string>{"localhost"});
    alone_ = std::make_unique<comm::Communicator>(in_process_->connect(0));
    communicator_ = alone_.get();
  }
  group_ =
      group_of(*communicator_, cluster::workers_of(*communicator_), comm::CallOptions{}.timeout);
}

GroupSum::~GroupSum() = default;

void GroupSum::broadcast(std::span<float> data) {
  communicator_->broadcast(std::as_writable_bytes(data), 0);
}

std::vector<std::size_t> GroupSum::agree(const char* operation, const std::string& what,
                                         std::size_t number) {
  const Intent own{.number = number, .text = fmt::format("{} of {}", operation, what)};
  std::vector<std::size_t> numbers;
  std::vector<std::string> texts;
  for (const std::string& bytes : group_->share(own.to_bytes())) {
    const Intent intent = Intent::from_bytes(bytes);
    if (intent.refuses) throw_refusal(*communicator_, texts.size(), intent.text);
    numbers.push_back(intent.number);
    texts.push_back(intent.text);
  }
  comm::compare_texts(
      texts, [](std::size_t rank, const std::string& first, const std::string& its) {
        throw InvalidArgument("kvstore: worker 0 does {}, worker {} does {}", first, rank, its);
      });
  return numbers;
}

void GroupSum::refuse(const std::string& why) noexcept {
  try {
    group_->share(Intent{.refuses = true, .text = why}.to_bytes());
  } catch (const std::exception&) {
    // The others have gone: nobody is left to be told.
  }
}

void GroupSum::sum(const std::vector<std::span<const float>>& own,
                   const std::vector<std::size_t>& counts, std::span<float> result) {
  const auto begin = counts.begin() + rank();
  const auto lo = static_cast<std::int64_t>(std::accumulate(counts.begin(), begin, std::size_t{0}));
  const auto all =
      static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  std::vector<std::vector<float>> sums;
  std::vector<comm::TreeNode> nodes;
  const auto ranges = subtrees_in(all, {lo, lo + static_cast<std::int64_t>(own.size())});
  for (const ShardRange& node : ranges) {
    sums.emplace_back(result.size());
    sum_node(own, lo, node, sums.back());
  }
  for (std::size_t n = 0; n < ranges.size(); ++n)
    nodes.push_back({ranges[n].lo, ranges[n].hi, std::as_bytes(std::span(sums[n]))});
  communicator_->tree_sum(nodes, all, std::as_writable_bytes(result));
}

RowSums GroupSum::sum_rows(const std::vector<std::int64_t>& ids, std::span<const float> rows,
                           std::size_t width, std::size_t value_rows) {
  std::string own;
  append_bytes(sum_by_id(ids, rows, width), own);
  std::vector<RowNode> workers;
  for (const std::string& bytes : group_->share(own)) {
    const auto worker = static_cast<std::int64_t>(workers.size());
    std::string_view left = bytes;
    workers.push_back({{worker, worker + 1}, take_rows(left, width, value_rows)});
  }
  return sum_row_nodes({0, size()}, std::move(workers), width);
}

std::unique_ptr<CompressedSum> GroupSum::compressed(const Compression& compression) {
  return std::make_unique<CompressedSum>(*communicator_, compression, comm::CallOptions{});
}

}  // namespace lockstep::kvstore
