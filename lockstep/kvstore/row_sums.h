// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/shard_tree.h"

namespace lockstep::kvstore {

// The rows of a table that have a gradient: ids ascending, each once, and a row of floats for each.
struct RowSums {
  std::vector<std::int64_t> ids = {};
  std::vector<float> rows = {};
  bool operator==(const RowSums&) const = default;
};

// Of a subtree of shards (base/shard_tree.h).
struct RowNode {
  ShardRange shards;
  RowSums sum = {};
};

// Of rows in any order: those of one id are added in order of position. Rows of the id `skipped`
// count for nothing.
RowSums sum_by_id(std::span<const std::int64_t> ids, std::span<const float> rows, std::size_t width,
                  std::optional<std::int64_t> skipped = {});
// Rows that both have are added, left + right; the others are as they were.
RowSums add_rows(const RowSums& left, const RowSums& right, std::size_t width);
// The canonical tree's sum over `whole`, which the nodes, in order, make up. A shard that has no
// gradient of a row adds nothing to it, so that the sum is a function of the shards alone.
RowSums sum_row_nodes(ShardRange whole, std::vector<RowNode> nodes, std::size_t width);

// The way between workers, which know each other's ranges of shards. Taking a sum leaves what comes
// after it; it throws Corrupt where the bytes end too early, or the ids are not ascending ones
// below `table_rows`.
void append_bytes(const RowSums& sums, std::string& bytes);
RowSums take_rows(std::string_view& bytes, std::size_t width, std::size_t table_rows);

}  // namespace lockstep::kvstore
