// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "lockstep/comm/meter.h"
#include "lockstep/train/step_cost.h"

namespace lockstep::train::detail {

// What one step costs this worker: made when it begins. `meter` may be null.
class CostMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CostMeter(const comm::Meter* meter);
  // When the step counts. `computed_at` is when this worker's own passes were done; `seconds` is
  // how long each worker's took.
  StepCost finish(Clock::time_point computed_at, std::span<const double> seconds, int rank) const;

 private:
  const comm::Meter* meter_;
  double waited_ = 0.0;
  std::uint64_t sent_ = 0;
};

class CostSum {
 public:
  void add(const StepCost& cost);
  RunCost total() const;

 private:
  RunCost sum_;
  std::vector<std::int64_t> slowest_;  // by rank: in how many steps
};

}  // namespace lockstep::train::detail
