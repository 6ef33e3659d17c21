// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/cost_meter.h"

#include <algorithm>

namespace lockstep::train::detail {

CostMeter::CostMeter(const comm::Meter* meter) : meter_(meter) {
  if (meter_ == nullptr) return;
  waited_ = meter_->seconds_waited();
  sent_ = meter_->bytes_sent();
}

// Whoever waits while others of its threads compute loses nothing by it: only what comes after the
// passes counts.
StepCost CostMeter::finish(Clock::time_point computed_at, std::span<const double> seconds,
                           int rank) const {
  const auto slowest = std::max_element(seconds.begin(), seconds.end());
  StepCost cost{.compute_s = seconds[static_cast<std::size_t>(rank)],
                .wait_s = std::chrono::duration<double>(Clock::now() - computed_at).count(),
                .slowest_rank = static_cast<int>(slowest - seconds.begin()),
                .slowest_s = *slowest,
                .seconds = {seconds.begin(), seconds.end()}};
  if (meter_ == nullptr) return cost;
  cost.wait_s = std::min(cost.wait_s, meter_->seconds_waited() - waited_);
  cost.bytes_sent = meter_->bytes_sent() - sent_;
  return cost;
}

void CostSum::add(const StepCost& cost) {
  ++sum_.steps;
  sum_.compute_s += cost.compute_s;
  sum_.wait_s += cost.wait_s;
  sum_.bytes_sent += cost.bytes_sent;
  const auto rank = static_cast<std::size_t>(cost.slowest_rank);
  if (slowest_.size() <= rank) slowest_.resize(rank + 1);
  ++slowest_[rank];
}

RunCost CostSum::total() const {
  RunCost total = sum_;
  const auto most = std::max_element(slowest_.begin(), slowest_.end());
  if (most == slowest_.end()) return total;
  total.slowest_rank = static_cast<int>(most - slowest_.begin());
  total.slowest_steps = *most;
  return total;
}

}  // namespace lockstep::train::detail
