// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/row_sums.h"

#include <algorithm>
#include <compare>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

// Positions by id; those of one id stay in order.
struct Position {
  std::int64_t id;
  std::size_t place;
  auto operator<=>(const Position&) const = default;
};

std::vector<Position> order_by_id(std::span<const std::int64_t> ids) {
  std::vector<Position> order(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) order[i] = {ids[i], i};
  std::sort(order.begin(), order.end());
  return order;
}

// Writes rows one after the other into memory for the most that there can be.
class RowWriter {
 public:
  RowWriter(std::size_t most_rows, std::size_t width) : width_(width) {
    sums_.ids.resize(most_rows);
    sums_.rows.resize(most_rows * width);
    to_ = sums_.rows.data();
  }

  bool ends_with(std::int64_t id) const { return count_ > 0 && sums_.ids[count_ - 1] == id; }
  void append(std::int64_t id, const float* row) {
    sums_.ids[count_++] = id;
    for (std::size_t i = 0; i < width_; ++i) to_[i] = row[i];
    to_ += width_;
  }
  void append_sum(std::int64_t id, const float* left, const float* right) {
    sums_.ids[count_++] = id;
    for (std::size_t i = 0; i < width_; ++i) to_[i] = left[i] + right[i];
    to_ += width_;
  }
  void add_to_last(const float* row) {
    float* last = to_ - width_;
    for (std::size_t i = 0; i < width_; ++i) last[i] += row[i];
  }
  // Once, at the end.
  RowSums take() {
    sums_.ids.resize(count_);
    sums_.rows.resize(count_ * width_);
    return std::move(sums_);
  }

 private:
  std::size_t width_, count_ = 0;
  RowSums sums_;
  float* to_ = nullptr;
};

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
  RowWriter sums(ids.size(), width);
  for (const auto& [id, position] : order_by_id(ids)) {
    if (id == skipped) continue;
    const float* row = rows.data() + position * width;
    sums.ends_with(id) ? sums.add_to_last(row) : sums.append(id, row);
  }
  return sums.take();
}

RowSums add_rows(const RowSums& left, const RowSums& right, std::size_t width) {
  if (left.ids.empty()) return right;
  if (right.ids.empty()) return left;
  RowWriter sums(left.ids.size() + right.ids.size(), width);
  const float *of_left = left.rows.data(), *of_right = right.rows.data();
  auto l = left.ids.begin(), r = right.ids.begin();
  while (l != left.ids.end() && r != right.ids.end()) {
    const bool in_left = *l <= *r, in_right = *r <= *l;
    if (in_left && in_right)
      sums.append_sum(*l, of_left, of_right);
    else
      in_left ? sums.append(*l, of_left) : sums.append(*r, of_right);
    l += in_left ? 1 : 0;
    of_left += in_left ? width : 0;
    r += in_right ? 1 : 0;
    of_right += in_right ? width : 0;
  }
  for (; l != left.ids.end(); ++l, of_left += width) sums.append(*l, of_left);
  for (; r != right.ids.end(); ++r, of_right += width) sums.append(*r, of_right);
  return sums.take();
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
