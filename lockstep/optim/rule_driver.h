// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lockstep/base/thread_team.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/pieces.h"

namespace lockstep::optim {

// Where a parameter's numbers are.
struct RuleMemory {
  float* weight = nullptr;
  std::vector<float*> slots = {};
};

struct RuleParameter {
  std::size_t count = 0;
  double rate_multiplier = 1.0, decay_multiplier = 1.0;
  RuleMemory from = {};  // what an update reads
  RuleMemory to = {};    // where it leaves the new numbers: the same memory, or another
  // Parameters of one number are slices of one: their norms are added, in their order.
  std::optional<std::size_t> whole = {};
};

// Runs an update rule over parameters, piece by piece: the one place that does. What it computes
// for a piece is a function of that piece, and of norms that are summed in the order of the pieces.
//
// A step has up to three phases, and between them sums over pieces, wherever those were computed:
// where gradients are clipped by their norm, clip() of every piece's squares; where the rule
// measures, totals() of every piece's norms; then finish() of every piece.
class RuleDriver {
 public:
  RuleDriver(OptimizerPtr rule, std::vector<RuleParameter> parameters);

  const Optimizer& rule() const { return *rule_; }
  const std::vector<RuleParameter>& parameters() const { return parameters_; }
  // Parameter after parameter.
  std::size_t pieces() const { return parts_.size(); }
  bool clips() const { return rule_->options().clip_norm > 0.0; }
  bool measures() const { return rule_->measures(); }
  // Whether a piece can be updated without having seen the others' gradients.
  bool is_local() const { return !measures() && !clips(); }
  // Of step number `step`, from 1, with gradients that are multiplied by `scale`.
  UpdateContext context(std::int64_t step, double rate, double scale) const;

  // The sum of squares of a piece's gradient.
  double squares(std::size_t piece, const float* gradient) const;
  // The context with gradients scaled so that the norm of all of them is at most the rule's limit,
  // given the squares of every piece, in order.
  UpdateContext clip(UpdateContext context, std::span<const double> squares) const;
  // Of a rule that measures.
  PieceNorms measure(const UpdateContext& context, std::size_t piece, const float* gradient) const;
  // Of each parameter, given the norms of every piece, in order.
  std::vector<PieceNorms> totals(std::span<const PieceNorms> by_piece) const;
  // Where some slices are elsewhere: of each of these parameters, given their own totals.
  using Combine = std::function<std::vector<PieceNorms>(std::span<const PieceNorms> own)>;
  // The update of a piece. Without totals the rule does not measure. Threads may run different
  // pieces at once, in this phase and in the others.
  void finish(const UpdateContext& context, std::span<const PieceNorms> totals, std::size_t piece,
              const float* gradient) const;
  // The same by a rule that measures, of a piece of a parameter with this total.
  void finish_measured(const UpdateContext& context, const PieceNorms& total, std::size_t piece,
                       const float* gradient) const;

  // One piece, by a local rule.
  void run(const UpdateContext& context, std::size_t parameter, PieceRange range,
           const float* gradient) const;
  // Gives a piece's gradient to a thread of the team.
  using Gradient = std::function<const float*(int thread, std::size_t parameter, PieceRange range)>;
  // All pieces, by any rule; the gradients' scale is known, and none is clipped by its norm.
  void run_scaled(ThreadTeam& team, const UpdateContext& context, const Gradient& gradient,
                  const Combine& combine = {}) const;
  // All pieces, by any rule.
  void run_all(ThreadTeam& team, UpdateContext context, const Gradient& gradient) const;

  // What was `to` is `from`, and the other way round.
  void swap_memory() noexcept;

 private:
  struct Part {
    std::size_t parameter;
    PieceRange range;
  };
  std::vector<PieceNorms> own_totals(std::span<const PieceNorms> by_piece) const;
  std::vector<PieceNorms> add_slices(std::vector<PieceNorms> own) const;
  template <class Work>
  void for_each_part(ThreadTeam& team, const Gradient& gradient, const Work& work) const;

  OptimizerPtr rule_;
  std::vector<RuleParameter> parameters_;
  std::vector<Part> parts_;
};

}  // namespace lockstep::optim
