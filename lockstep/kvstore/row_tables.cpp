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

void RowTables::commit() noexcept {
  for (const Table& table : tables_) {
    const std::size_t width = table.layout.width;
    for (std::size_t k = 0; k < table.next.size(); ++k) {
      const float* from = table.next[k].data();
      for (const std::int64_t id : table.gradient.ids) {
        std::copy_n(from, width, table.memory(k) + static_cast<std::size_t>(id) * width);
        from += width;
      }
    }
  }
}

}  // namespace lockstep::kvstore
