// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/owned_pieces.h"

#include <algorithm>

#include "lockstep/base/error.h"

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

optim::RuleMemory memory_at(float* weights, const std::vector<FlatBuffer>& slots,
                            std::size_t place) {
  optim::RuleMemory memory{weights};
  for (const FlatBuffer& slot : slots) memory.slots.push_back(slot.data() + place);
  return memory;
}

}  // namespace

OwnedPieces::OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces,
                         optim::OptimizerPtr rule, const FlatBuffer& weights,
                         const FlatBuffer& next_weights)
    : OwnedPieces(layout, std::move(pieces), std::move(rule), &weights, &next_weights) {}

OwnedPieces::OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces,
                         optim::OptimizerPtr rule)
    : OwnedPieces(layout, std::move(pieces), std::move(rule), nullptr, nullptr) {}

OwnedPieces::OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces,
                         optim::OptimizerPtr rule, const FlatBuffer* weights,
                         const FlatBuffer* next_weights)
    : layout_(layout),
      numbers_(std::move(pieces)),
      places_(places_of(layout, numbers_)),
      now_(buffers_of(rule->slots(), floats())),
      next_(buffers_of(rule->slots(), floats())),
      weights_(buffers_of(weights == nullptr ? 2 : 0, floats())),
      driver_(rule, parameters(weights, next_weights)) {}

std::vector<optim::RuleParameter> OwnedPieces::parameters(const FlatBuffer* weights,
                                                          const FlatBuffer* next_weights) const {
  std::vector<optim::RuleParameter> result;
  const auto at = [&](const FlatBuffer* whole, std::size_t own, std::size_t i) {
    return whole != nullptr ? whole->data() + piece(i).offset : weights_[own].data() + place(i);
  };
  for (std::size_t i = 0; i < size(); ++i) {
    const FlatParameter& whole = layout_.parameters[piece(i).parameter];
    result.push_back({.count = piece(i).size(),
                      .rate_multiplier = whole.rate_multiplier,
                      .decay_multiplier = whole.decay_multiplier,
                      .from = memory_at(at(weights, 0, i), now_, place(i)),
                      .to = memory_at(at(next_weights, 1, i), next_, place(i))});
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

template <class Work>
void OwnedPieces::for_weights_in(std::size_t offset, std::size_t count, const Work& work) const {
  check(!weights_.empty(), "weights of pieces that somebody else has");
  const std::size_t end = first_from(offset + count);
  for (std::size_t i = first_from(offset); i < end; ++i)
    work(std::span(weights_[0].data() + place(i), piece(i).size()), piece(i).offset - offset);
}

void OwnedPieces::put_weights(std::size_t offset, std::span<float> stretch) const {
  for_weights_in(offset, stretch.size(), [&](std::span<const float> own, std::size_t where) {
    std::ranges::copy(own, stretch.begin() + static_cast<std::ptrdiff_t>(where));
  });
}

void OwnedPieces::set_weights(std::size_t offset, std::span<const float> stretch) const {
  for_weights_in(offset, stretch.size(), [&](std::span<float> own, std::size_t where) {
    std::ranges::copy(stretch.subspan(where, own.size()), own.begin());
  });
}

void OwnedPieces::finish(const optim::UpdateContext& context,
                         std::span<const optim::PieceNorms> totals, std::size_t i,
                         const float* gradient) const {
  if (totals.empty()) return driver_.finish(context, {}, i, gradient);
  driver_.finish_measured(context, totals[piece(i).parameter], i, gradient);
}

void OwnedPieces::swap() noexcept {
  now_.swap(next_);
  if (!weights_.empty()) std::swap(weights_[0], weights_[1]);
  driver_.swap_memory();
}

}  // namespace lockstep::kvstore
