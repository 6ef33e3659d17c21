// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/optim/rule_driver.h"

namespace lockstep::kvstore {

// What an update rule keeps for one value of a store.
class StoreUpdate {
 public:
  // One update of the whole value.
  void run(const optim::OptimizerPtr& rule, double rescale, std::span<const float> gradient,
           std::span<float> value);
  // One of some parts: begin, then each part. A rule that measures does so part by part.
  void begin(const optim::OptimizerPtr& rule, double rescale, std::size_t size);
  void run_part(std::size_t offset, std::span<const float> gradient, std::span<float> value);

  // What a saved state has: how many updates there were, and the slots, none before the first one.
  std::int64_t steps() const { return steps_; }
  const std::vector<std::vector<float>>& slots() const { return slots_; }
  void restore(std::int64_t steps, std::vector<std::vector<float>> slots) {
    steps_ = steps;
    slots_ = std::move(slots);
  }

 private:
  optim::OptimizerPtr rule_;
  double rescale_ = 1.0;
  std::int64_t steps_ = 0;
  std::vector<std::vector<float>> slots_;
};

}  // namespace lockstep::kvstore
