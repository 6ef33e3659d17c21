// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/row_sums.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

// Positions by id; those of one id stay in order.
std::vector<std::size_t> order_by_id(std::span<const std::int64_t> ids) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ids[a] != ids[b] ? ids[a] < ids[b] : a < b;
  });
  return order;
}

void append_row(RowSums& sums, std::int64_t id, const float* row, std::size_t width) {
  sums.ids.push_back(id);
  sums.rows.insert(sums.rows.end(), row, row + width);
}

void add_to_last(RowSums& sums, const float* row, std::size_t width) {
  float* last = sums.rows.data() + sums.rows.size() - width;
  for (std::size_t i = 0; i < width; ++i) last[i] += row[i];
}

template <class Values>
void append_values(const Values& values, std::string& bytes) {
  const auto all = std::as_bytes(values);
  bytes.append(reinterpret_cast<const char*>(all.data()), all.size());
}

template <class T>
std::vector<T> take_values(std::string_view& bytes, std::size_t count) {
  if (count > bytes.size() / sizeof(T))
    throw Corrupt("kvstore: rows of a worker end after {} bytes, expected {} numbers of {}",
                  bytes.size(), count, sizeof(T));
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return values;
}

void check_ids(const std::vector<std::int64_t>& ids, std::size_t table_rows) {
  std::int64_t before = -1;
  for (const std::int64_t id : ids) {
    if (id <= before || id >= static_cast<std::int64_t>(table_rows))
      throw Corrupt(
          "kvstore: a worker's rows have id {} after {}, expected ascending ones below {}", id,
          before, table_rows);
    before = id;
  }
}

}  // namespace

RowSums sum_by_id(std::span<const std::int64_t> ids, std::span<const float> rows, std::size_t width,
                  std::optional<std::int64_t> skipped) {
  check(rows.size() == ids.size() * width, "there is a row for each id");
  RowSums sums;
  sums.rows.reserve(rows.size());
  for (const std::size_t position : order_by_id(ids)) {
    const std::int64_t id = ids[position];
    if (id == skipped) continue;
    const float* row = rows.data() + position * width;
    if (!sums.ids.empty() && sums.ids.back() == id)
      add_to_last(sums, row, width);
    else
      append_row(sums, id, row, width);
  }
  return sums;
}

RowSums add_rows(const RowSums& left, const RowSums& right, std::size_t width) {
  if (left.ids.empty()) return right;
  if (right.ids.empty()) return left;
  RowSums sums;
  sums.ids.reserve(left.ids.size() + right.ids.size());
  sums.rows.reserve(left.rows.size() + right.rows.size());
  const auto row = [width](const RowSums& of, std::size_t i) { return of.rows.data() + i * width; };
  std::size_t l = 0, r = 0;
  while (l < left.ids.size() || r < right.ids.size()) {
    const bool left_is_done = l == left.ids.size(), right_is_done = r == right.ids.size();
    const bool in_left = !left_is_done && (right_is_done || left.ids[l] <= right.ids[r]);
    const bool in_right = !right_is_done && (left_is_done || right.ids[r] <= left.ids[l]);
    if (in_left) append_row(sums, left.ids[l], row(left, l), width);
    if (in_left && in_right) add_to_last(sums, row(right, r), width);
    if (!in_left) append_row(sums, right.ids[r], row(right, r), width);
    l += in_left ? 1 : 0;
    r += in_right ? 1 : 0;
  }
  return sums;
}

RowSums sum_row_nodes(ShardRange whole, std::vector<RowNode> nodes, std::size_t width) {
  std::vector<ShardRange> ranges;
  for (const RowNode& node : nodes) ranges.push_back(node.shards);
  std::vector<RowSums> sums;
  for (const int word : plan_subtree(whole, ranges)) {
    if (word != kAdd) {
      sums.push_back(std::move(nodes[static_cast<std::size_t>(word)].sum));
      continue;
    }
    const RowSums right = std::move(sums.back());
    sums.pop_back();
    sums.back() = add_rows(sums.back(), right, width);
  }
  check(sums.size() == 1, "nodes make up one subtree");
  return std::move(sums[0]);
}

void append_bytes(const RowSums& sums, std::string& bytes) {
  const std::uint64_t count = sums.ids.size();
  append_values(std::span(&count, 1), bytes);
  append_values(std::span(sums.ids), bytes);
  append_values(std::span(sums.rows), bytes);
}

RowSums take_rows(std::string_view& bytes, std::size_t width, std::size_t table_rows) {
  const std::uint64_t count = take_values<std::uint64_t>(bytes, 1)[0];
  if (count > table_rows)
    throw Corrupt("kvstore: {} rows of a worker, the table has {}", count, table_rows);
  RowSums sums;
  sums.ids = take_values<std::int64_t>(bytes, count);
  check_ids(sums.ids, table_rows);
  sums.rows = take_values<float>(bytes, count * width);
  return sums;
}

}  // namespace lockstep::kvstore
