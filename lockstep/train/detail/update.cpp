// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/update.h"

#include <atomic>
#include <cmath>
#include <numeric>

namespace lockstep::train::detail {

Update::Update(const FlatLayout& layout, optim::OptimizerPtr rule)
    : layout_(layout), rule_(std::move(rule)), pieces_(layout.pieces(0, layout.slices.size())) {
  for (int i = 0; i < rule_->slots(); ++i) slots_.emplace_back(layout.floats);
  sums_.resize(pieces_.size());
  weights_.resize(pieces_.size());
}

optim::UpdateContext Update::context(std::int64_t step, double rate, std::int64_t shards) const {
  optim::UpdateContext context;
  context.step = step + 1;
  context.learning_rate = rate;
  context.weight_decay = rule_->options().weight_decay;
  context.clip_value = rule_->options().clip_value;
  context.gradient_scale = 1.0 / static_cast<double>(shards);
  return context;
}

optim::UpdateContext Update::own(const Piece& piece, optim::UpdateContext context) const {
  context.learning_rate *= layout_.slices[piece.slice].rate_multiplier;
  context.weight_decay *= layout_.slices[piece.slice].decay_multiplier;
  return context;
}

optim::Piece Update::memory(const Piece& piece, const float* gradient,
                            std::vector<float*>& room) const {
  room.clear();
  for (const FlatBuffer& slot : slots_) room.push_back(slot.data() + layout_.offset(piece));
  return {{layout_.slices[piece.slice].weight + piece.begin, piece.size()},
          {gradient, piece.size()},
          room};
}

void Update::run(const Piece& piece, const float* gradient,
                 const optim::UpdateContext& context) const {
  std::vector<float*> room;
  rule_->update(own(piece, context), memory(piece, gradient, room));
}

// Any thread may take any piece: what it computes is a function of the piece.
template <class Work>
void Update::for_each_piece(ThreadTeam& team, const Gradient& gradient, const Work& work) {
  std::atomic<std::size_t> next = 0;
  team.run([&](int thread) {
    for (std::size_t i = next++; i < pieces_.size(); i = next++)
      work(i, gradient(thread, pieces_[i]));
  });
}

void Update::run_all(ThreadTeam& team, const Gradient& gradient, optim::UpdateContext context) {
  if (rule_->options().clip_norm > 0.0)
    context.gradient_scale *= clip_factor(team, gradient, context.gradient_scale);
  if (rule_->measures()) return run_measured(team, gradient, context);
  for_each_piece(team, gradient,
                 [&](std::size_t i, const float* g) { run(pieces_[i], g, context); });
}

double Update::clip_factor(ThreadTeam& team, const Gradient& gradient, double scale) {
  for_each_piece(team, gradient, [&](std::size_t i, const float* g) {
    sums_[i] = optim::piece_sum_of_squares({g, pieces_[i].size()});
  });
  const double norm = std::sqrt(std::accumulate(sums_.begin(), sums_.end(), 0.0)) * scale;
  return optim::clip_factor(norm, rule_->options().clip_norm);
}

void Update::run_measured(ThreadTeam& team, const Gradient& gradient,
                          const optim::UpdateContext& context) {
  for_each_piece(team, gradient, [&](std::size_t i, const float* g) {
    std::vector<float*> room;
    const optim::PieceNorms norms =
        rule_->measure(own(pieces_[i], context), memory(pieces_[i], g, room));
    weights_[i] = norms.weight;
    sums_[i] = norms.direction;
  });
  std::vector<optim::PieceNorms> of_slice(layout_.slices.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    of_slice[pieces_[i].slice].weight += weights_[i];
    of_slice[pieces_[i].slice].direction += sums_[i];
  }
  for_each_piece(team, gradient, [&](std::size_t i, const float* g) {
    optim::UpdateContext measured = context;
    measured.weight_norm = std::sqrt(of_slice[pieces_[i].slice].weight);
    measured.direction_norm = std::sqrt(of_slice[pieces_[i].slice].direction);
    run(pieces_[i], g, measured);
  });
}

}  // namespace lockstep::train::detail
