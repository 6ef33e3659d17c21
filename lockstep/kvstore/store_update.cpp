// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/store_update.h"

#include <cmath>

#include "lockstep/optim/pieces.h"

namespace lockstep::kvstore {

void StoreUpdate::begin(const optim::Optimizer& rule, double rescale, std::size_t size) {
  while (static_cast<int>(slots_.size()) < rule.slots()) slots_.emplace_back(size);
  context_ = {.step = ++steps_,
              .learning_rate = rule.options().learning_rate,
              .weight_decay = rule.options().weight_decay,
              .gradient_scale = rescale,
              .clip_value = rule.options().clip_value};
}

void StoreUpdate::run(const optim::Optimizer& rule, double rescale, std::span<const float> gradient,
                      std::span<float> value) {
  begin(rule, rescale, value.size());
  run_part(rule, 0, gradient, value);
}

void StoreUpdate::run_part(const optim::Optimizer& rule, std::size_t offset,
                           std::span<const float> gradient, std::span<float> value) {
  std::vector<float*> room(slots_.size());
  const auto over_pieces = [&](const auto& f) {
    for (std::size_t i = 0; i < optim::count_pieces(value.size()); ++i) {
      const optim::PieceRange range = optim::piece_range(value.size(), i);
      for (std::size_t s = 0; s < room.size(); ++s)
        room[s] = slots_[s].data() + offset + range.begin;
      f(optim::Piece{value.subspan(range.begin, range.size()),
                     gradient.subspan(range.begin, range.size()), room});
    }
  };
  optim::UpdateContext context = context_;
  if (rule.measures()) {
    optim::PieceNorms sums;
    over_pieces([&](const optim::Piece& piece) {
      const optim::PieceNorms norms = rule.measure(context, piece);
      sums.weight += norms.weight;
      sums.direction += norms.direction;
    });
    context.weight_norm = std::sqrt(sums.weight);
    context.direction_norm = std::sqrt(sums.direction);
  }
  over_pieces([&](const optim::Piece& piece) { rule.update(context, piece); });
}

}  // namespace lockstep::kvstore
