// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/kvstore/row_sums.h"
#include "lockstep/optim/rule_driver.h"

namespace lockstep::kvstore {

// Parameters whose gradients are of some rows only, with what a rule keeps for them. There is one
// copy of each: the rows that a step changes are made beside it, and written there by commit().
// Rows that a step has no gradient of keep weights and slots as they are (a lazy update).
class RowTables {
 public:
  RowTables(std::vector<RowTable> layout, int slots);

  std::size_t size() const { return tables_.size(); }
  const RowTable& layout(std::size_t table) const { return tables_[table].layout; }
  // Of the last committed step. Between steps they may be changed.
  std::span<float> weights(std::size_t table) const { return all(table, tables_[table].weights); }
  std::span<float> slot(std::size_t number, std::size_t table) const {
    return all(table, tables_[table].slots[number]);
  }
  std::size_t bytes() const;

  // A step that was begun before and never committed counts for nothing.
  void begin() noexcept;
  // The step's gradient of a table, summed over all shards.
  void set_gradient(std::size_t table, RowSums sums);
  const RowSums& gradient(std::size_t table) const { return tables_[table].gradient; }
  bool is_finite() const;
  // For each table, its rows of the step, one after the other: a rule changes them in place.
  std::vector<optim::RuleParameter> rows_of_step();
  // What the step makes of a table, where somebody else runs the rule: rows that are new, in place
  // of a gradient. The slots, if any are here, stay as they are.
  void set_next(std::size_t table, RowSums rows);
  // The rows of the step, with their new weights.
  RowSums next_rows(std::size_t table) const;
  // The rows of the step are the tables'.
  void commit() noexcept;
  // Back to what was before the last commit(), once.
  void revert() noexcept;

 private:
  struct Table {
    RowTable layout;
    FlatBuffer weights;
    std::vector<FlatBuffer> slots;
    RowSums gradient = {};
    std::vector<std::vector<float>> next = {};  // of the gradient's rows: weights, then each slot
    // What the last commit has replaced.
    std::vector<std::int64_t> last_ids = {};
    std::vector<std::vector<float>> last = {};
    float* memory(std::size_t number) const {
      return number == 0 ? weights.data() : slots[number - 1].data();
    }
  };
  // Row by row, what is in the table and what is in `rows`.
  static void swap_rows(const Table& table, const std::vector<std::int64_t>& ids,
                        std::vector<std::vector<float>>& rows) noexcept;
  std::span<float> all(std::size_t table, const FlatBuffer& buffer) const {
    return {buffer.data(), tables_[table].layout.rows * tables_[table].layout.width};
  }

  std::vector<Table> tables_;
};

}  // namespace lockstep::kvstore
