// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/row_gradients.h"

#include <atomic>

#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::train::detail {
namespace {

using kvstore::RowNode, kvstore::RowSums, kvstore::RowTable;

std::vector<std::int64_t> as_int64(const Tensor& ids) {
  const auto count = static_cast<std::size_t>(ids.numel());
  if (ids.dtype() == DType::int64)
    return {ids.data<std::int64_t>(), ids.data<std::int64_t>() + count};
  return {ids.data<std::int32_t>(), ids.data<std::int32_t>() + count};
}

RowSums sum_lookup(const RowTable& table, const Tensor& ids, const Tensor& rows) {
  const Tensor values = rows.to(cpu()).contiguous();
  return kvstore::sum_by_id(as_int64(ids.to(cpu()).contiguous()),
                            {values.data<float>(), static_cast<std::size_t>(values.numel())},
                            table.width, table.padding_row);
}

}  // namespace

RowGradients::RowGradients(const kvstore::FlatLayout& layout, std::int64_t shards, ShardRange range)
    : tables_(layout.tables),
      range_(range),
      nodes_(subtrees_in(shards, range)),
      sums_(static_cast<std::size_t>(range.hi - range.lo), std::vector<RowSums>(tables_.size())),
      finite_(tables_.size(), 1) {}

void RowGradients::take(std::int64_t shard, std::span<const std::size_t> lookups,
                        std::span<const Tensor> ids_and_rows) {
  std::vector<RowSums>& sums = sums_[static_cast<std::size_t>(shard - range_.lo)];
  std::fill(sums.begin(), sums.end(), RowSums{});
  for (std::size_t l = 0; l < lookups.size(); ++l) {
    const RowTable& table = tables_[lookups[l]];
    RowSums& sum = sums[lookups[l]];
    sum = kvstore::add_rows(sum, sum_lookup(table, ids_and_rows[2 * l], ids_and_rows[2 * l + 1]),
                            table.width);
  }
}

std::vector<RowNode> RowGradients::nodes_of(std::size_t table) {
  const std::size_t width = tables_[table].width;
  std::vector<RowNode> result;
  for (const ShardRange& node : nodes_) {
    std::vector<RowNode> leaves;
    for (std::int64_t shard = node.lo; shard < node.hi; ++shard)
      leaves.push_back({{shard, shard + 1},
                        std::move(sums_[static_cast<std::size_t>(shard - range_.lo)][table])});
    result.push_back({node, kvstore::sum_row_nodes(node, std::move(leaves), width)});
  }
  finite_[table] = std::all_of(result.begin(), result.end(), [](const RowNode& node) {
    return kvstore::all_finite(node.sum.rows);
  });
  return result;
}

std::vector<std::vector<RowNode>> RowGradients::nodes(ThreadTeam& team) {
  std::vector<std::vector<RowNode>> result(tables_.size());
  std::atomic<std::size_t> next = 0;
  team.run([&](int) {
    for (std::size_t t = next++; t < tables_.size(); t = next++) result[t] = nodes_of(t);
  });
  return result;
}

bool RowGradients::is_finite() const {
  return std::all_of(finite_.begin(), finite_.end(), [](char finite) { return finite != 0; });
}

}  // namespace lockstep::train::detail
