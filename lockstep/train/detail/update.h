// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/base/thread_team.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/train/detail/flat.h"

namespace lockstep::train::detail {

// Runs an update rule over the pieces of all parameters, with what it keeps for them.
class Update {
 public:
  Update(const FlatLayout& layout, optim::OptimizerPtr rule);

  const optim::Optimizer& rule() const { return *rule_; }
  const std::vector<FlatBuffer>& slots() const { return slots_; }
  // Whether a piece can be updated without having seen the others' gradients.
  bool is_local() const { return !rule_->measures() && rule_->options().clip_norm <= 0.0; }
  optim::UpdateContext context(std::int64_t step, double rate, std::int64_t shards) const;

  void run(const Piece& piece, const float* gradient, const optim::UpdateContext& context) const;

  // Gives a piece's gradient to a thread of the team.
  using Gradient = std::function<const float*(int thread, const Piece& piece)>;
  // All pieces, shared among the threads; norms are summed in the order of the pieces.
  void run_all(ThreadTeam& team, const Gradient& gradient, optim::UpdateContext context);

 private:
  template <class Work>
  void for_each_piece(ThreadTeam& team, const Gradient& gradient, const Work& work);
  double clip_factor(ThreadTeam& team, const Gradient& gradient, double scale);
  void run_measured(ThreadTeam& team, const Gradient& gradient,
                    const optim::UpdateContext& context);
  optim::UpdateContext own(const Piece& piece, optim::UpdateContext context) const;
  optim::Piece memory(const Piece& piece, const float* gradient, std::vector<float*>& room) const;

  const FlatLayout& layout_;
  optim::OptimizerPtr rule_;
  std::vector<FlatBuffer> slots_;
  std::vector<Piece> pieces_;
  std::vector<double> sums_, weights_;  // by piece
};

}  // namespace lockstep::train::detail
