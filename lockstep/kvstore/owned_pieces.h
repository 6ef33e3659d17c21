// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/optim/rule_driver.h"

namespace lockstep::kvstore {

// The pieces of a layout whose rule one of several workers runs, with what the rule keeps for them:
// twice, as the last committed step left it, and as the step under way makes it. Pieces are counted
// from 0, in the layout's order.
class OwnedPieces {
 public:
  // `pieces`: their numbers in the layout, ascending. The layout and the weights, those of the last
  // step and the next ones, are somebody else's, and outlive it.
  OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces, optim::OptimizerPtr rule,
              const FlatBuffer& weights, const FlatBuffer& next_weights);
  // The same with the weights of these pieces alone, as it has their slots.
  OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces, optim::OptimizerPtr rule);

  std::size_t size() const { return numbers_.size(); }
  const std::vector<std::size_t>& numbers() const { return numbers_; }
  const FlatPiece& piece(std::size_t i) const { return layout_.pieces[numbers_[i]]; }
  // The own piece with which those begin that begin at that offset of the layout or behind it.
  std::size_t first_from(std::size_t offset) const;
  // Where a piece begins when all stand one after the other, and how many floats they are.
  std::size_t place(std::size_t i) const { return places_[i]; }
  std::size_t floats() const { return places_.back(); }

  // Of the last committed step, one piece after the other. Between steps they may be changed.
  std::span<float> slot(std::size_t number) const { return {now_[number].data(), floats()}; }
  std::size_t slots() const { return now_.size(); }
  std::size_t bytes() const { return (2 * slots() + weights_.size()) * floats() * sizeof(float); }
  // Where it has them: the last committed weights of a stretch of the layout from `offset` on go
  // from and to their places there; those of other workers' pieces are left alone.
  void put_weights(std::size_t offset, std::span<float> stretch) const;
  void set_weights(std::size_t offset, std::span<const float> stretch) const;
  // The slot's values of all floats of the layout: this worker's are taken from there.
  void set_slot(std::size_t number, std::span<const float> all) const;

  // The phases of a step, as optim::RuleDriver has them, of a piece whose gradient this is. Threads
  // may run different pieces at once.
  double squares(std::size_t i, const float* gradient) const {
    return driver_.squares(i, gradient);
  }
  optim::PieceNorms measure(const optim::UpdateContext& context, std::size_t i,
                            const float* gradient) const {
    return driver_.measure(context, i, gradient);
  }
  // `totals`: by parameter of the layout; none where the rule does not measure.
  void finish(const optim::UpdateContext& context, std::span<const optim::PieceNorms> totals,
              std::size_t i, const float* gradient) const;

  // What the step made is what was, and the other way round.
  void swap() noexcept;

 private:
  OwnedPieces(const FlatLayout& layout, std::vector<std::size_t> pieces, optim::OptimizerPtr rule,
              const FlatBuffer* weights, const FlatBuffer* next_weights);
  std::vector<optim::RuleParameter> parameters(const FlatBuffer* weights,
                                               const FlatBuffer* next_weights) const;
  // The own pieces of a stretch of the layout: each one's weights, and its place in the stretch.
  template <class Work>
  void for_weights_in(std::size_t offset, std::size_t count, const Work& work) const;

  const FlatLayout& layout_;
  std::vector<std::size_t> numbers_;
  std::vector<std::size_t> places_;  // and the end of the last
  std::vector<FlatBuffer> now_, next_;
  std::vector<FlatBuffer> weights_;  // now and next; none where somebody else has them
  optim::RuleDriver driver_;         // a parameter for each piece
};

}  // namespace lockstep::kvstore
