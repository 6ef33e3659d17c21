// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/optim/schedule.h"

namespace lockstep::optim::detail {

// The schedule's rate of a step. Throws InvalidArgument that names both when it is none.
inline double checked_rate(const std::string& who, const Schedule& schedule, std::int64_t step) {
  const double rate = schedule.rate(step);
  if (rate >= 0.0 && std::isfinite(rate)) return rate;
  throw InvalidArgument(
      "{}: the schedule{} gives a learning rate of {} for step {}, expected 0 or more", who,
      schedule.description.empty() ? "" : " " + schedule.description,
      std::isnan(rate) ? std::abs(rate) : rate, step + 1);
}

}  // namespace lockstep::optim::detail
