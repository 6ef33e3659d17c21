// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/share_rows.h"

namespace lockstep::kvstore {

void share_rows(Group& group, std::int64_t shards, const std::vector<std::vector<RowNode>>& tables,
                FlatState& state) {
  std::string own;
  for (const std::vector<RowNode>& nodes : tables)
    for (const RowNode& node : nodes) append_bytes(node.sum, own);
  const std::vector<std::string> shared = group.share(own);
  const std::vector<ShardRange> ranges = group.membership().deal(shards);
  std::vector<std::string_view> left(shared.begin(), shared.end());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const RowTable& table = state.layout().tables[t];
    std::vector<RowNode> all;
    for (std::size_t rank = 0; rank < left.size(); ++rank)
      for (const ShardRange& node : subtrees_in(shards, ranges[rank]))
        all.push_back({node, take_rows(left[rank], table.width, table.rows)});
    state.tables().set_gradient(t, sum_row_nodes({0, shards}, std::move(all), table.width));
  }
}

}  // namespace lockstep::kvstore
