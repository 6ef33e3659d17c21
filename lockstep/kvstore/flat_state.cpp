// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/flat_state.h"

#include <atomic>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> count = 0;
  return ++count;
}

}  // namespace

FlatState::Numbers::Numbers(const FlatLayout& layout, int slot_count, WeightPlace place)
    : has_weights(place == WeightPlace::here), weights(has_weights ? layout.floats : 0) {
  for (int i = 0; i < slot_count; ++i) slots.emplace_back(layout.floats);
}

optim::RuleMemory FlatState::Numbers::at(std::size_t offset) const {
  optim::RuleMemory memory{has_weights ? weights.data() + offset : nullptr};
  for (const FlatBuffer& slot : slots) memory.slots.push_back(slot.data() + offset);
  return memory;
}

std::vector<optim::RuleParameter> FlatState::parameters(const FlatLayout& layout,
                                                        const Numbers& from, const Numbers& to) {
  std::vector<optim::RuleParameter> result;
  for (const FlatParameter& parameter : layout.parameters)
    result.push_back({.count = parameter.count,
                      .rate_multiplier = parameter.rate_multiplier,
                      .decay_multiplier = parameter.decay_multiplier,
                      .from = from.at(parameter.offset),
                      .to = to.at(parameter.offset),
                      .whole = parameter.whole});
  return result;
}

FlatState::FlatState(FlatLayout layout, optim::OptimizerPtr rule, SlotPlace slots,
                     WeightPlace weights)
    : id_(next_id()),
      layout_(std::move(layout)),
      weight_place_(weights),
      numbers_{Numbers(layout_, slots == SlotPlace::here ? rule->slots() : 0, weights),
               Numbers(layout_, slots == SlotPlace::here ? rule->slots() : 0, weights)},
      tables_(layout_.tables, slots == SlotPlace::elsewhere ? 0 : rule->slots()),
      rule_(std::move(rule)),
      driver_(rule_, parameters(layout_, numbers_[0], numbers_[1])) {}

void FlatState::own(std::vector<std::size_t> pieces) {
  if (owned_ && owned_->numbers() == pieces) return;
  if (owned_)
    throw Unsupported(
        "kvstore: what the rule keeps is shared between the workers, and cannot be shared between "
        "others without a checkpoint");
  if (shares_weights()) {
    owned_.emplace(layout_, std::move(pieces), rule_);
    return;
  }
  owned_.emplace(layout_, std::move(pieces), rule_, numbers_[current_].weights,
                 numbers_[1 - current_].weights);
}

void FlatState::begin(std::int64_t step, double rate, std::int64_t shards) {
  context_ = driver_.context(step + 1, rate, 1.0 / static_cast<double>(shards));
  tables_.begin();
}

void FlatState::update(std::size_t offset, std::size_t count, const float* gradient) const {
  for (const FlatPiece& piece : layout_.pieces_in(offset, count))
    driver_.run(context_, piece.parameter, piece.range, gradient + (piece.offset - offset));
}

// What is updated together is measured together.
void FlatState::update_all(ThreadTeam& team, const Gradient& gradient) {
  const std::size_t flat = layout_.parameters.size();
  const auto find = [&](int thread, std::size_t parameter, const optim::PieceRange& range) {
    if (parameter >= flat) return tables_.gradient(parameter - flat).rows.data() + range.begin;
    return gradient(thread, layout_.parameters[parameter].offset + range.begin);
  };
  if (tables_.size() == 0) return driver_.run_all(team, context_, find);
  std::vector<optim::RuleParameter> all = driver_.parameters();
  for (optim::RuleParameter& rows : tables_.rows_of_step()) all.push_back(std::move(rows));
  optim::RuleDriver(rule_, std::move(all)).run_all(team, context_, find);
}

void FlatState::update_tables(ThreadTeam& team, double scale) {
  const optim::RuleDriver driver(rule_, tables_.rows_of_step());
  optim::UpdateContext context = context_;
  context.gradient_scale = scale;
  driver.run_scaled(team, context, [&](int, std::size_t table, const optim::PieceRange& range) {
    return tables_.gradient(table).rows.data() + range.begin;
  });
}

std::vector<std::vector<double>> FlatState::squares_of_tables(ThreadTeam& team) {
  std::vector<std::vector<double>> squares(tables_.size());
  team.run([&](int thread) {
    for (auto t = static_cast<std::size_t>(thread); t < squares.size();
         t += static_cast<std::size_t>(team.size())) {
      const std::vector<float>& rows = tables_.gradient(t).rows;
      for (std::size_t i = 0; i < optim::count_pieces(rows.size()); ++i) {
        const optim::PieceRange range = optim::piece_range(rows.size(), i);
        squares[t].push_back(
            optim::piece_sum_of_squares({rows.data() + range.begin, range.size()}));
      }
    }
  });
  return squares;
}

void FlatState::swap_numbers() noexcept {
  current_ = 1 - current_;
  driver_.swap_memory();
  if (owned_) owned_->swap();
}

void FlatState::commit() noexcept {
  swap_numbers();
  tables_.commit();
}

void FlatState::revert() noexcept {
  swap_numbers();
  tables_.revert();
}

}  // namespace lockstep::kvstore
