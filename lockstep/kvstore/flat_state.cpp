// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/flat_state.h"

namespace lockstep::kvstore {

FlatState::Numbers::Numbers(const FlatLayout& layout, int slot_count) : weights(layout.floats) {
  for (int i = 0; i < slot_count; ++i) slots.emplace_back(layout.floats);
}

optim::RuleMemory FlatState::Numbers::at(std::size_t offset) const {
  optim::RuleMemory memory{weights.data() + offset};
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
                      .to = to.at(parameter.offset)});
  return result;
}

FlatState::FlatState(FlatLayout layout, optim::OptimizerPtr rule, SlotPlace slots)
    : layout_(std::move(layout)),
      numbers_{Numbers(layout_, slots == SlotPlace::here ? rule->slots() : 0),
               Numbers(layout_, slots == SlotPlace::here ? rule->slots() : 0)},
      driver_(std::move(rule), parameters(layout_, numbers_[0], numbers_[1])) {}

void FlatState::begin(std::int64_t step, double rate, std::int64_t shards) {
  context_ = driver_.context(step + 1, rate, 1.0 / static_cast<double>(shards));
}

void FlatState::update(std::size_t offset, std::size_t count, const float* gradient) const {
  for (const FlatPiece& piece : layout_.pieces_in(offset, count))
    driver_.run(context_, piece.parameter, piece.range, gradient + (piece.offset - offset));
}

void FlatState::update_all(ThreadTeam& team, const Gradient& gradient) const {
  driver_.run_all(team, context_,
                  [&](int thread, std::size_t parameter, const optim::PieceRange& range) {
                    return gradient(thread, layout_.parameters[parameter].offset + range.begin);
                  });
}

void FlatState::commit() noexcept {
  current_ = 1 - current_;
  driver_.swap_memory();
}

}  // namespace lockstep::kvstore
