// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/row_tables.h"

#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::kvstore {

RowTables::RowTables(std::vector<RowTable> layout, int slots) {
  for (const RowTable& its : layout) {
    const std::size_t floats = its.rows * its.width;
    Table table{its, FlatBuffer(floats), {}};
    for (int i = 0; i < slots; ++i) table.slots.emplace_back(floats);
    table.next.resize(static_cast<std::size_t>(slots) + 1);
    table.last.resize(table.next.size());
    tables_.push_back(std::move(table));
  }
}

std::size_t RowTables::bytes() const {
  std::size_t floats = 0;
  for (const Table& table : tables_)
    floats += table.layout.rows * table.layout.width * (1 + table.slots.size());
  return floats * sizeof(float);
}

void RowTables::begin() noexcept {
  for (Table& table : tables_) {
    table.gradient.ids.clear();
    table.gradient.rows.clear();
  }
}

// The rows are copied here, where what fails does no harm.
void RowTables::set_gradient(std::size_t number, RowSums sums) {
  Table& table = tables_[number];
  const std::size_t width = table.layout.width;
  for (std::size_t k = 0; k < table.next.size(); ++k) {
    table.next[k].resize(sums.rows.size());
    float* to = table.next[k].data();
    for (const std::int64_t id : sums.ids)
      to = std::copy_n(table.memory(k) + static_cast<std::size_t>(id) * width, width, to);
  }
  table.gradient = std::move(sums);
}

bool RowTables::is_finite() const {
  return std::all_of(tables_.begin(), tables_.end(),
                     [](const Table& table) { return all_finite(table.gradient.rows); });
}

std::vector<optim::RuleParameter> RowTables::rows_of_step() {
  std::vector<optim::RuleParameter> parameters;
  for (Table& table : tables_) {
    optim::RuleMemory memory{table.next[0].data()};
    for (std::size_t k = 1; k < table.next.size(); ++k)
      memory.slots.push_back(table.next[k].data());
    parameters.push_back({.count = table.gradient.rows.size(),
                          .rate_multiplier = table.layout.rate_multiplier,
                          .decay_multiplier = table.layout.decay_multiplier,
                          .from = memory,
                          .to = memory});
  }
  return parameters;
}

void RowTables::set_next(std::size_t number, RowSums rows) {
  Table& table = tables_[number];
  const std::size_t width = table.layout.width;
  for (std::size_t k = 1; k < table.next.size(); ++k) {
    table.next[k].resize(rows.rows.size());
    float* to = table.next[k].data();
    for (const std::int64_t id : rows.ids)
      to = std::copy_n(table.memory(k) + static_cast<std::size_t>(id) * width, width, to);
  }
  table.next[0] = std::move(rows.rows);
  table.gradient = {.ids = std::move(rows.ids)};
}

RowSums RowTables::next_rows(std::size_t table) const {
  return {tables_[table].gradient.ids, tables_[table].next[0]};
}

void RowTables::swap_rows(const Table& table, const std::vector<std::int64_t>& ids,
                          std::vector<std::vector<float>>& rows) noexcept {
  const std::size_t width = table.layout.width;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    float* other = rows[k].data();
    for (const std::int64_t id : ids) {
      float* row = table.memory(k) + static_cast<std::size_t>(id) * width;
      other = std::swap_ranges(row, row + width, other);
    }
  }
}

void RowTables::commit() noexcept {
  for (Table& table : tables_) {
    swap_rows(table, table.gradient.ids, table.next);
    table.last_ids.swap(table.gradient.ids);
    table.last.swap(table.next);
    table.gradient.ids.clear();
    table.gradient.rows.clear();
  }
}

void RowTables::revert() noexcept {
  for (Table& table : tables_) {
    swap_rows(table, table.last_ids, table.last);
    table.last_ids.clear();
  }
}

}  // namespace lockstep::kvstore
