// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/kvstore/owned_pieces.h"
#include "lockstep/kvstore/row_tables.h"
#include "lockstep/optim/rule_driver.h"

namespace lockstep::kvstore {

// Where the numbers are that a rule keeps for weights: beside them; with somebody else who runs the
// rule; or each worker has those of its own pieces.
enum class SlotPlace { here, elsewhere, shared };
// And the weights: all of them here, or each worker has those of its own pieces.
enum class WeightPlace { here, shared };

// The weights that learn and what their rule keeps for them, twice: as the last committed step left
// them, and as the step under way makes them. Of tables that learn by rows, only the step's rows
// are there twice. Nothing of a step shows before commit().
class FlatState {
 public:
  // Weights are shared only where slots are.
  FlatState(FlatLayout layout, optim::OptimizerPtr rule, SlotPlace slots = SlotPlace::here,
            WeightPlace weights = WeightPlace::here);

  // No other state of this process has it, or ever had.
  std::uint64_t id() const { return id_; }
  const FlatLayout& layout() const { return layout_; }
  const optim::Optimizer& rule() const { return driver_.rule(); }
  bool is_local() const { return driver_.is_local(); }
  // For who runs the phases of a step one by one; pieces are those of the layout.
  const optim::RuleDriver& driver() const { return driver_; }

  bool shares_weights() const { return weight_place_ == WeightPlace::shared; }
  // Of the last committed step, where they are here. Between steps they may be changed.
  std::span<float> weights() const { return {now().weights.data(), layout_.floats}; }
  // As the step under way makes them.
  std::span<float> next_weights() const {
    return {numbers_[1 - current_].weights.data(), layout_.floats};
  }
  // Those that are here.
  std::size_t slots() const { return now().slots.size(); }
  std::span<float> slot(std::size_t number) const {
    return {now().slots[number].data(), layout_.floats};
  }

  // Where slots are shared: these pieces, by their numbers in the layout, are this worker's. Slots
  // that are here stay as they are. Throws Unsupported when they are those of other pieces.
  void own(std::vector<std::size_t> pieces);
  OwnedPieces& owned() { return *owned_; }
  std::size_t owned_bytes() const { return owned_ ? owned_->bytes() : 0; }

  RowTables& tables() { return tables_; }
  const RowTables& tables() const { return tables_; }

  // Step number `step`, from 0, whose gradients are sums over `shards`. One that was begun before
  // and never committed counts for nothing.
  void begin(std::int64_t step, double rate, std::int64_t shards);
  const optim::UpdateContext& context() const { return context_; }
  // By a local rule: the pieces that begin in [offset, offset + count), in any order, by any
  // thread.
  void update(std::size_t offset, std::size_t count, const float* gradient) const;
  using Gradient = std::function<const float*(int thread, std::size_t offset)>;
  // By any rule, all pieces and the rows that tables have gradients of; `gradient` gives the place
  // of the piece at that offset. A rule's norms of a table are those of its rows of the step.
  void update_all(ThreadTeam& team, const Gradient& gradient);
  // The rows that tables have gradients of, apart from all else: by a rule that clips gradients by
  // their norm, `scale` is that of the clipped ones.
  void update_tables(ThreadTeam& team, double scale);
  // Sums of squares of those gradients, table by table, by piece of its rows.
  std::vector<std::vector<double>> squares_of_tables(ThreadTeam& team);
  // Every piece and row has been updated: the new numbers are the numbers.
  void commit() noexcept;
  // Back to the step before the last committed one, of which nothing has been overwritten yet.
  void revert() noexcept;

  std::size_t buffers() const { return 2 * (shares_weights() ? 0 : 1 + slots()); }

 private:
  struct Numbers {
    Numbers(const FlatLayout& layout, int slot_count, WeightPlace place);
    optim::RuleMemory at(std::size_t offset) const;
    bool has_weights;
    FlatBuffer weights;
    std::vector<FlatBuffer> slots;
  };
  const Numbers& now() const { return numbers_[current_]; }
  void swap_numbers() noexcept;
  static std::vector<optim::RuleParameter> parameters(const FlatLayout& layout, const Numbers& from,
                                                      const Numbers& to);

  std::uint64_t id_;
  FlatLayout layout_;
  WeightPlace weight_place_;
  std::vector<Numbers> numbers_;  // two
  std::size_t current_ = 0;
  RowTables tables_;
  std::optional<OwnedPieces> owned_;
  optim::OptimizerPtr rule_;
  optim::RuleDriver driver_;
  optim::UpdateContext context_;
};

}  // namespace lockstep::kvstore
