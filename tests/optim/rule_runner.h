// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "lockstep/optim/optimizers.h"
#include "lockstep/optim/pieces.h"

namespace lockstep::optim::testing {

// One parameter and what a rule keeps for it.
struct RuleState {
  std::vector<float> weight;
  std::vector<std::vector<float>> slots;

  RuleState(const Optimizer& rule, std::vector<float> start) : weight(std::move(start)) {
    slots.assign(static_cast<std::size_t>(rule.slots()), std::vector<float>(weight.size()));
  }
  bool operator==(const RuleState&) const = default;
};

inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(bits);
  return values;
}

// Calls f on each piece when the parameter is cut at `cuts`.
template <class F>
void for_pieces(RuleState& state, const std::vector<float>& gradient,
                const std::vector<std::size_t>& cuts, F&& f) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= cuts.size(); ++i) {
    const std::size_t end = i < cuts.size() ? cuts[i] : state.weight.size();
    std::vector<float*> slots;
    for (auto& slot : state.slots) slots.push_back(slot.data() + begin);
    f(Piece{.weight = std::span(state.weight).subspan(begin, end - begin),
            .gradient = std::span(gradient).subspan(begin, end - begin),
            .slots = slots});
    begin = end;
  }
}

// One step of the rule; measured whole, updated piece by piece.
inline void run_step(const Optimizer& rule, UpdateContext context, RuleState& state,
                     const std::vector<float>& gradient,
                     const std::vector<std::size_t>& cuts = {}) {
  if (rule.measures())
    for_pieces(state, gradient, {}, [&](const Piece& piece) {
      const PieceNorms norms = rule.measure(context, piece);
      context.weight_norm = std::sqrt(norms.weight);
      context.direction_norm = std::sqrt(norms.direction);
    });
  for_pieces(state, gradient, cuts, [&](const Piece& piece) { rule.update(context, piece); });
}

// Each rule in each of its variants.
inline std::vector<OptimizerPtr> all_rules() {
  return {sgd(),
          sgd({.momentum = 0.9}),
          sgd({.momentum = 0.9, .nesterov = true}),
          sgd({.momentum = 0.9, .dampening = 0.5}),
          signum({.momentum = 0.0}),
          signum({.decoupled_decay = 0.1}),
          adam(),
          adam({.amsgrad = true}),
          adamw(),
          adamw({.amsgrad = true}),
          adamax(),
          nadam(),
          adagrad(),
          adadelta(),
          rmsprop(),
          rmsprop({.momentum = 0.9}),
          rmsprop({.centered = true}),
          rmsprop({.momentum = 0.9, .centered = true}),
          ftrl(),
          lamb(),
          lars()};
}

}  // namespace lockstep::optim::testing
