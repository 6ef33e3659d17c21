// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/slice_meeting.h"

#include "lockstep/comm/element_range.h"
#include "lockstep/kvstore/group_sum.h"

namespace lockstep::train::detail {

LinkedSlices::LinkedSlices(comm::Communicator& communicator, std::int64_t slices,
                           const comm::CallOptions& options)
    : communicator_(communicator),
      slices_(slices),
      options_(options),
      ranges_(deal_shards(slices, communicator.size())),
      subtrees_(subtrees_in(slices, ranges_[static_cast<std::size_t>(communicator.rank())])),
      sums_(subtrees_.size()) {}

void LinkedSlices::sum(std::span<const std::span<const float>> own, std::span<float> result) {
  const std::int64_t first = ranges_[static_cast<std::size_t>(communicator_.rank())].lo;
  std::vector<comm::TreeNode> nodes;
  for (std::size_t i = 0; i < subtrees_.size(); ++i) {
    const auto [lo, hi] = subtrees_[i];
    const auto leaves =
        own.subspan(static_cast<std::size_t>(lo - first), static_cast<std::size_t>(hi - lo));
    std::span<const float> sum = leaves[0];
    if (leaves.size() > 1) {
      sums_[i].resize(result.size());
      kvstore::sum_in_tree({leaves.begin(), leaves.end()}, sums_[i]);
      sum = sums_[i];
    }
    nodes.push_back({lo, hi, std::as_bytes(sum)});
  }
  communicator_.tree_sum(nodes, slices_, std::as_writable_bytes(result), options_, ranges_);
}

void LinkedSlices::gather(std::span<std::byte> all, std::span<const std::size_t> sizes) {
  std::vector<comm::ElementRanges> parts;
  std::size_t end = 0;
  for (const ShardRange& range : ranges_) {
    const std::size_t begin = end;
    for (std::int64_t k = range.lo; k < range.hi; ++k) end += sizes[static_cast<std::size_t>(k)];
    parts.push_back({{begin / sizeof(float), end / sizeof(float)}});
  }
  communicator_.all_gather_parts(all, parts, options_);
}

}  // namespace lockstep::train::detail
