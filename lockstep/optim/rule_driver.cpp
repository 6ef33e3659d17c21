// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/rule_driver.h"

#include <atomic>
#include <cmath>
#include <cstring>
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
  if (rule_->options().clip_norm > 0.0)
    context.gradient_scale *= clip_factor(team, gradient, context.gradient_scale);
  if (!rule_->measures())
    return for_each_part(team, gradient, [&](std::size_t i, const float* g) {
      run(context, parts_[i].parameter, parts_[i].range, g);
    });
  const std::vector<PieceNorms> norms = measure(team, gradient, context);
  for_each_part(team, gradient, [&](std::size_t i, const float* g) {
    UpdateContext measured = context;
    measured.weight_norm = std::sqrt(norms[parts_[i].parameter].weight);
    measured.direction_norm = std::sqrt(norms[parts_[i].parameter].direction);
    finish_part(measured, parts_[i], g);
  });
}

double RuleDriver::clip_factor(ThreadTeam& team, const Gradient& gradient, double scale) const {
  std::vector<double> sums(parts_.size());
  for_each_part(team, gradient, [&](std::size_t i, const float* g) {
    sums[i] = piece_sum_of_squares({g, parts_[i].range.size()});
  });
  const double norm = std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0)) * scale;
  return optim::clip_factor(norm, rule_->options().clip_norm);
}

std::vector<PieceNorms> RuleDriver::measure(ThreadTeam& team, const Gradient& gradient,
                                            const UpdateContext& context) const {
  std::vector<PieceNorms> by_part(parts_.size()), by_parameter(parameters_.size());
  for_each_part(team, gradient, [&](std::size_t i, const float* g) {
    by_part[i] = measure_part(context, parts_[i], g);
  });
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    by_parameter[parts_[i].parameter].weight += by_part[i].weight;
    by_parameter[parts_[i].parameter].direction += by_part[i].direction;
  }
  return by_parameter;
}

// Measuring may change the slots: it has them where the new ones will be.
PieceNorms RuleDriver::measure_part(const UpdateContext& context, const Part& part,
                                    const float* gradient) const {
  const RuleParameter& own = parameters_[part.parameter];
  copy_slots(own, part.range.begin, part.range.size());
  const std::vector<float*> slots = slots_at(own.to, part.range.begin);
  return rule_->measure(context_of(own, context),
                        {{own.from.weight + part.range.begin, part.range.size()},
                         {gradient, part.range.size()},
                         slots});
}

// The slots are where they belong already.
void RuleDriver::finish_part(const UpdateContext& context, const Part& part,
                             const float* gradient) const {
  const RuleParameter& own = parameters_[part.parameter];
  const std::size_t begin = part.range.begin, count = part.range.size();
  copy(own.from.weight + begin, own.to.weight + begin, count);
  const std::vector<float*> slots = slots_at(own.to, begin);
  rule_->update(context_of(own, context),
                {{own.to.weight + begin, count}, {gradient, count}, slots});
}

void RuleDriver::swap_memory() noexcept {
  for (RuleParameter& parameter : parameters_) std::swap(parameter.from, parameter.to);
}

}  // namespace lockstep::optim
