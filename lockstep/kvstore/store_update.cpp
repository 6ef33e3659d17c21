// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/store_update.h"

namespace lockstep::kvstore {

void StoreUpdate::begin(const optim::OptimizerPtr& rule, double rescale, std::size_t size) {
  while (static_cast<int>(slots_.size()) < rule->slots()) slots_.emplace_back(size);
  rule_ = rule;
  rescale_ = rescale;
  ++steps_;
}

void StoreUpdate::run(const optim::OptimizerPtr& rule, double rescale,
                      std::span<const float> gradient, std::span<float> value) {
  begin(rule, rescale, value.size());
  run_part(0, gradient, value);
}

void StoreUpdate::run_part(std::size_t offset, std::span<const float> gradient,
                           std::span<float> value) {
  optim::RuleMemory memory{value.data()};
  for (std::vector<float>& slot : slots_) memory.slots.push_back(slot.data() + offset);
  const optim::RuleDriver driver(rule_, {{.count = value.size(), .from = memory, .to = memory}});
  ThreadTeam caller(1);
  driver.run_all(caller, driver.context(steps_, rule_->options().learning_rate, rescale_),
                 [&](int, std::size_t, const optim::PieceRange& range) {
                   return gradient.data() + range.begin;
                 });
}

}  // namespace lockstep::kvstore
