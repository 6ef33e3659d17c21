// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/schedule.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

using Rate = std::function<double(std::int64_t)>;

void check_rate(const char* schedule, const char* what, double rate) {
  if (std::isfinite(rate) && rate >= 0.0) return;
  throw InvalidArgument("{}: {} is {}, expected 0 or a number above it", schedule, what, rate);
}

void check_warm_up(const char* schedule, double rate, const WarmUp& warm_up) {
  check_rate(schedule, "rate", rate);
  check_rate(schedule, "warm-up rate", warm_up.from);
  if (warm_up.steps < 0)
    throw InvalidArgument("{}: warm-up of {} steps, expected 0 or more", schedule, warm_up.steps);
  if (warm_up.from > rate)
    throw InvalidArgument("{}: warm-up from {}, expected at most the rate {}", schedule,
                          warm_up.from, rate);
}

// The step at which a schedule that ends is at its final rate.
void check_end(const char* schedule, std::int64_t steps, const WarmUp& warm_up) {
  if (steps > 0 && steps > warm_up.steps) return;
  throw InvalidArgument("{}: {} steps, expected more than the warm-up's {}", schedule, steps,
                        warm_up.steps);
}

void check_factor(const char* schedule, double factor) {
  if (factor > 0.0 && factor <= 1.0) return;
  throw InvalidArgument("{}: factor is {}, expected a number in (0, 1]", schedule, factor);
}

double warm_rate(const WarmUp& warm_up, double rate, std::int64_t step) {
  if (warm_up.constant) return warm_up.from;
  const double part = static_cast<double>(step) / static_cast<double>(warm_up.steps);
  return warm_up.from + (rate - warm_up.from) * part;
}

Schedule with_warm_up(std::string description, double rate, const WarmUp& warm_up, Rate after) {
  if (warm_up.steps == 0) return {std::move(description), std::move(after)};
  description += fmt::format(", warm-up {} steps {} {}", warm_up.steps,
                             warm_up.constant ? "at" : "from", warm_up.from);
  return {std::move(description), [=, after = std::move(after)](std::int64_t step) {
            return step < warm_up.steps ? warm_rate(warm_up, rate, step) : after(step);
          }};
}

// How much of the way from the end of the warm-up to the end of the schedule is done.
double part_done(std::int64_t step, std::int64_t steps, const WarmUp& warm_up) {
  const auto whole = static_cast<double>(steps - warm_up.steps);
  return std::min(1.0, static_cast<double>(step - warm_up.steps) / whole);
}

}  // namespace

Schedule constant(double rate, const WarmUp& warm_up) {
  check_warm_up("constant", rate, warm_up);
  return with_warm_up(fmt::format("constant {}", rate), rate, warm_up,
                      [rate](std::int64_t) { return rate; });
}

Schedule factor(double rate, std::int64_t every, double factor, double stop,
                const WarmUp& warm_up) {
  check_warm_up("factor", rate, warm_up);
  check_factor("factor", factor);
  check_rate("factor", "stop", stop);
  if (every < 1) throw InvalidArgument("factor: every {} steps, expected 1 or more", every);
  return with_warm_up(
      fmt::format("factor {} x {} every {} steps, to {}", rate, factor, every, stop), rate, warm_up,
      [=](std::int64_t step) {
        const auto times = static_cast<double>(step / every);
        return std::max(stop, rate * std::pow(factor, times));
      });
}

Schedule multi_factor(double rate, std::vector<std::int64_t> steps, double factor,
                      const WarmUp& warm_up) {
  check_warm_up("multi_factor", rate, warm_up);
  check_factor("multi_factor", factor);
  if (std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end() ||
      (!steps.empty() && steps.front() < 1))
    throw InvalidArgument("multi_factor: steps are [{}], expected 1 or more and increasing",
                          fmt::join(steps, ", "));
  auto text = fmt::format("multi_factor {} x {} at [{}]", rate, factor, fmt::join(steps, ", "));
  return with_warm_up(
      std::move(text), rate, warm_up, [=, steps = std::move(steps)](std::int64_t step) {
        const auto passed = std::upper_bound(steps.begin(), steps.end(), step) - steps.begin();
        return rate * std::pow(factor, static_cast<double>(passed));
      });
}

Schedule polynomial(double rate, std::int64_t steps, double power, double final_rate,
                    const WarmUp& warm_up) {
  check_warm_up("polynomial", rate, warm_up);
  check_end("polynomial", steps, warm_up);
  check_rate("polynomial", "final_rate", final_rate);
  check_rate("polynomial", "power", power);
  auto text =
      fmt::format("polynomial {} to {} over {} steps, power {}", rate, final_rate, steps, power);
  return with_warm_up(std::move(text), rate, warm_up, [=](std::int64_t step) {
    if (step >= steps) return final_rate;
    return final_rate +
           (rate - final_rate) * std::pow(1.0 - part_done(step, steps, warm_up), power);
  });
}

Schedule cosine(double rate, std::int64_t steps, double final_rate, const WarmUp& warm_up) {
  check_warm_up("cosine", rate, warm_up);
  check_end("cosine", steps, warm_up);
  check_rate("cosine", "final_rate", final_rate);
  auto text = fmt::format("cosine {} to {} over {} steps", rate, final_rate, steps);
  return with_warm_up(std::move(text), rate, warm_up, [=](std::int64_t step) {
    if (step >= steps) return final_rate;
    const double angle = std::numbers::pi * part_done(step, steps, warm_up);
    return final_rate + (rate - final_rate) * (1.0 + std::cos(angle)) / 2.0;
  });
}

Schedule reduce_on_plateau(const Plateau& plateau, const Schedule& base) {
  if (!(plateau.factor > 0.0 && plateau.factor < 1.0))
    throw InvalidArgument("reduce_on_plateau: factor is {}, expected a number in (0, 1)",
                          plateau.factor);
  if (plateau.patience < 1)
    throw InvalidArgument("reduce_on_plateau: patience is {}, expected 1 or more",
                          plateau.patience);
  if (plateau.cooldown < 0)
    throw InvalidArgument("reduce_on_plateau: cooldown is {}, expected 0 or more",
                          plateau.cooldown);
  check_rate("reduce_on_plateau", "min_rate", plateau.min_rate);
  check_rate("reduce_on_plateau", "min_delta", plateau.min_delta);
  Schedule schedule = base;
  schedule.plateau = plateau;
  schedule.description +=
      fmt::format("{}x {} on a plateau of {} ({}, patience {}, min_delta {}, cooldown {}), to {}",
                  base.description.empty() ? "" : ", ", plateau.factor, plateau.metric,
                  plateau.maximize ? "maximize" : "minimize", plateau.patience, plateau.min_delta,
                  plateau.cooldown, plateau.min_rate);
  return schedule;
}

int count_reductions(const Plateau& plateau, std::span<const double> values) {
  double best = plateau.maximize ? -INFINITY : INFINITY;
  int reductions = 0, waited = 0, cooling = 0;
  for (const double value : values) {
    const bool is_better =
        plateau.maximize ? value > best + plateau.min_delta : value < best - plateau.min_delta;
    if (is_better) best = value;
    if (cooling > 0) {
      --cooling;
      waited = 0;
    } else {
      waited = is_better ? 0 : waited + 1;
    }
    if (waited < plateau.patience) continue;
    ++reductions;
    waited = 0;
    cooling = plateau.cooldown;
  }
  return reductions;
}

}  // namespace lockstep::optim
