// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/owned_pieces.h"

#include <algorithm>

namespace lockstep::kvstore {
namespace {

std::vector<std::size_t> places_of(const FlatLayout& layout,
                                   const std::vector<std::size_t>& numbers) {
  std::vector<std::size_t> places{0};
  for (const std::size_t number : numbers)
    places.push_back(places.back() + layout.pieces[number].size());
  return places;
}

std::vector<FlatBuffer> buffers_of(int count, std::size_t floats) {
  std::vector<FlatBuffer> buffers;
  for (int i = 0; i < count; ++i) buffers.emplace_back(floats);
  return buffers;
}

optim::RuleMemory memory_at(const FlatBuffer& weights, std::size_t offset,
                            const std::vector<FlatBuffer>& slots, std::size_t place) {
  optim::RuleMemory memory{weights.data() + offset};
  for (const FlatBuffer& slot : slots) memory.slots.push_back(slot.data() + place);
  return memory;
}

}  // namespace

OwnedPieces::OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces,
                         optim::OptimizerPtr rule, const FlatBuffer& weights,
                         const FlatBuffer& next_weights)
    : layout_(layout),
      numbers_(std::move(pieces)),
      places_(places_of(layout, numbers_)),
      now_(buffers_of(rule->slots(), floats())),
      next_(buffers_of(rule->slots(), floats())),
      driver_(rule, parameters(weights, next_weights)) {}

std::vector<optim::RuleParameter> OwnedPieces::parameters(const FlatBuffer& weights,
                                                          const FlatBuffer& next_weights) const {
  std::vector<optim::RuleParameter> result;
  for (std::size_t i = 0; i < size(); ++i) {
    const FlatParameter& whole = layout_.parameters[piece(i).parameter];
    result.push_back({.count = piece(i).size(),
                      .rate_multiplier = whole.rate_multiplier,
                      .decay_multiplier = whole.decay_multiplier,
                      .from = memory_at(weights, piece(i).offset, now_, place(i)),
                      .to = memory_at(next_weights, piece(i).offset, next_, place(i))});
  }
  return result;
}

std::size_t OwnedPieces::first_from(std::size_t offset) const {
  const auto found = std::lower_bound(
      numbers_.begin(), numbers_.end(), offset,
      [&](std::size_t number, std::size_t where) { return layout_.pieces[number].offset < where; });
  return static_cast<std::size_t>(found - numbers_.begin());
}

void OwnedPieces::set_slot(std::size_t number, std::span<const float> all) const {
  for (std::size_t i = 0; i < size(); ++i)
    std::copy_n(all.data() + piece(i).offset, piece(i).size(), now_[number].data() + place(i));
}

void OwnedPieces::finish(const optim::UpdateContext& context,
                         std::span<const optim::PieceNorms> totals, std::size_t i,
                         const float* gradient) const {
  if (totals.empty()) return driver_.finish(context, {}, i, gradient);
  driver_.finish_measured(context, totals[piece(i).parameter], i, gradient);
}

void OwnedPieces::swap() noexcept {
  now_.swap(next_);
  driver_.swap_memory();
}

}  // namespace lockstep::kvstore
