// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/rule_driver.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

// Rules work in place. Where new numbers have a place of their own, old ones are copied there
// first, a block at a time that stays in the first-level cache: the memory sees each number read
// once and written once, as in a rule that would read here and write there.
namespace lockstep::optim {
namespace {

constexpr std::size_t kBlock = 2048;

void copy(const float* from, float* to, std::size_t count) {
  if (from != to) std::memcpy(to, from, count * sizeof(float));
}

void copy_slots(const RuleParameter& parameter, std::size_t begin, std::size_t count) {
  for (std::size_t s = 0; s < parameter.to.slots.size(); ++s)
    copy(parameter.from.slots[s] + begin, parameter.to.slots[s] + begin, count);
}

// A parameter's slots from element `begin` on.
std::vector<float*> slots_at(const RuleMemory& memory, std::size_t begin) {
  std::vector<float*> slots;
  for (float* slot : memory.slots) slots.push_back(slot + begin);
  return slots;
}

UpdateContext context_of(const RuleParameter& parameter, UpdateContext context) {
  context.learning_rate *= parameter.rate_multiplier;
  context.weight_decay *= parameter.decay_multiplier;
  return context;
}

}  // namespace

RuleDriver::RuleDriver(OptimizerPtr rule, std::vector<RuleParameter> parameters)
    : rule_(std::move(rule)), parameters_(std::move(parameters)) {
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    for (std::size_t i = 0; i < count_pieces(parameters_[p].count); ++i)
      parts_.push_back({p, piece_range(parameters_[p].count, i)});
}

UpdateContext RuleDriver::context(std::int64_t step, double rate, double scale) const {
  UpdateContext context;
  context.step = step;
  context.learning_rate = rate;
  context.weight_decay = rule_->options().weight_decay;
  context.clip_value = rule_->options().clip_value;
  context.gradient_scale = scale;
  return context;
}

void RuleDriver::run(const UpdateContext& context, std::size_t parameter, PieceRange range,
                     const float* gradient) const {
  const RuleParameter& own = parameters_[parameter];
  const UpdateContext its = context_of(own, context);
  for (std::size_t begin = range.begin; begin < range.end; begin += kBlock) {
    const std::size_t count = std::min(kBlock, range.end - begin);
    copy(own.from.weight + begin, own.to.weight + begin, count);
    copy_slots(own, begin, count);
    const std::vector<float*> slots = slots_at(own.to, begin);
    rule_->update(
        its, {{own.to.weight + begin, count}, {gradient + (begin - range.begin), count}, slots});
  }
}

// Any thread may take any piece.
template <class Work>
void RuleDriver::for_each_part(ThreadTeam& team, const Gradient& gradient, const Work& work) const {
  std::atomic<std::size_t> next = 0;
  team.run([&](int thread) {
    for (std::size_t i = next++; i < parts_.size(); i = next++)
      work(i, gradient(thread, parts_[i].parameter, parts_[i].range));
  });
}

void RuleDriver::run_all(ThreadTeam& team, UpdateContext context, const Gradient& gradient) const {
  if (clips()) {
    std::vector<double> by_piece(pieces());
    for_each_part(team, gradient,
                  [&](std::size_t i, const float* g) { by_piece[i] = squares(i, g); });
    context = clip(context, by_piece);
  }
  run_scaled(team, context, gradient);
}

void RuleDriver::run_scaled(ThreadTeam& team, const UpdateContext& context,
                            const Gradient& gradient, const Combine& combine) const {
  std::vector<PieceNorms> of_parameters;
  if (measures()) {
    std::vector<PieceNorms> by_piece(pieces());
    for_each_part(team, gradient,
                  [&](std::size_t i, const float* g) { by_piece[i] = measure(context, i, g); });
    of_parameters = combine ? combine(own_totals(by_piece)) : totals(by_piece);
  }
  for_each_part(team, gradient,
                [&](std::size_t i, const float* g) { finish(context, of_parameters, i, g); });
}

double RuleDriver::squares(std::size_t piece, const float* gradient) const {
  return piece_sum_of_squares({gradient, parts_[piece].range.size()});
}

UpdateContext RuleDriver::clip(UpdateContext context, std::span<const double> squares) const {
  const double norm =
      std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) * context.gradient_scale;
  context.gradient_scale *= clip_factor(norm, rule_->options().clip_norm);
  return context;
}

// Measuring may change the slots: it has them where the new ones will be.
PieceNorms RuleDriver::measure(const UpdateContext& context, std::size_t piece,
                               const float* gradient) const {
  const auto& [parameter, range] = parts_[piece];
  const RuleParameter& own = parameters_[parameter];
  copy_slots(own, range.begin, range.size());
  const std::vector<float*> slots = slots_at(own.to, range.begin);
  return rule_->measure(
      context_of(own, context),
      {{own.from.weight + range.begin, range.size()}, {gradient, range.size()}, slots});
}

std::vector<PieceNorms> RuleDriver::totals(std::span<const PieceNorms> by_piece) const {
  return add_slices(own_totals(by_piece));
}

std::vector<PieceNorms> RuleDriver::add_slices(std::vector<PieceNorms> own) const {
  std::map<std::size_t, PieceNorms> wholes;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (!parameters_[p].whole) continue;
    PieceNorms& sum = wholes[*parameters_[p].whole];
    sum.weight += own[p].weight;
    sum.direction += own[p].direction;
  }
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p].whole) own[p] = wholes[*parameters_[p].whole];
  return own;
}

std::vector<PieceNorms> RuleDriver::own_totals(std::span<const PieceNorms> by_piece) const {
  std::vector<PieceNorms> by_parameter(parameters_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    by_parameter[parts_[i].parameter].weight += by_piece[i].weight;
    by_parameter[parts_[i].parameter].direction += by_piece[i].direction;
  }
  return by_parameter;
}

void RuleDriver::finish(const UpdateContext& context, std::span<const PieceNorms> totals,
                        std::size_t piece, const float* gradient) const {
  const auto& [parameter, range] = parts_[piece];
  if (totals.empty()) return run(context, parameter, range, gradient);
  finish_measured(context, totals[parameter], piece, gradient);
}

// After measuring the slots are where they belong already.
void RuleDriver::finish_measured(const UpdateContext& context, const PieceNorms& total,
                                 std::size_t piece, const float* gradient) const {
  const auto& [parameter, range] = parts_[piece];
  const RuleParameter& own = parameters_[parameter];
  UpdateContext measured = context_of(own, context);
  measured.weight_norm = std::sqrt(total.weight);
  measured.direction_norm = std::sqrt(total.direction);
  copy(own.from.weight + range.begin, own.to.weight + range.begin, range.size());
  const std::vector<float*> slots = slots_at(own.to, range.begin);
  rule_->update(measured,
                {{own.to.weight + range.begin, range.size()}, {gradient, range.size()}, slots});
}

void RuleDriver::swap_memory() noexcept {
  for (RuleParameter& parameter : parameters_) std::swap(parameter.from, parameter.to);
}

}  // namespace lockstep::optim
