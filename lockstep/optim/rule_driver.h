// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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
};

// Runs an update rule over parameters, piece by piece: the one place that does. What it computes
// for a piece is a function of that piece, and of norms that are summed in the order of the pieces.
class RuleDriver {
 public:
  RuleDriver(OptimizerPtr rule, std::vector<RuleParameter> parameters);

  const Optimizer& rule() const { return *rule_; }
  const std::vector<RuleParameter>& parameters() const { return parameters_; }
  // Whether a piece can be updated without having seen the others' gradients.
  bool is_local() const { return !rule_->measures() && rule_->options().clip_norm <= 0.0; }
  // Of step number `step`, from 1, with gradients that are multiplied by `scale`.
  UpdateContext context(std::int64_t step, double rate, double scale) const;

  // One piece, by a local rule. Threads may run different pieces at once.
  void run(const UpdateContext& context, std::size_t parameter, PieceRange range,
           const float* gradient) const;
  // Gives a piece's gradient to a thread of the team.
  using Gradient = std::function<const float*(int thread, std::size_t parameter, PieceRange range)>;
  // All pieces, by any rule.
  void run_all(ThreadTeam& team, UpdateContext context, const Gradient& gradient) const;

  // What was `to` is `from`, and the other way round.
  void swap_memory() noexcept;

 private:
  struct Part {
    std::size_t parameter;
    PieceRange range;
  };
  template <class Work>
  void for_each_part(ThreadTeam& team, const Gradient& gradient, const Work& work) const;
  double clip_factor(ThreadTeam& team, const Gradient& gradient, double scale) const;
  std::vector<PieceNorms> measure(ThreadTeam& team, const Gradient& gradient,
                                  const UpdateContext& context) const;
  PieceNorms measure_part(const UpdateContext& context, const Part& part,
                          const float* gradient) const;
  void finish_part(const UpdateContext& context, const Part& part, const float* gradient) const;

  OptimizerPtr rule_;
  std::vector<RuleParameter> parameters_;
  std::vector<Part> parts_;
};

}  // namespace lockstep::optim
