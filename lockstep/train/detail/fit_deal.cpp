// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "lockstep/base/peak_memory.h"
#include "lockstep/train/detail/fit.h"

// Shards dealt by speed. Every worker hears with the votes of a step how long each has computed, so
// all come to the same shares at the same step, and make their plans for them: what is summed, and
// in which order, stays.
namespace lockstep::train::detail {

void Fit::watch_speeds() {
  dealer_.reset();
  if (!parts_.options.deals_by_speed || loop_ || group().workers() == 1) return;
  if (!parts_.options.mode->is_invariant())
    throw InvalidArgument(
        "train: shards are not dealt by speed with {}, whose bits depend on the deal",
        parts_.options.mode->description());
  if (engine_->shards_meet()) {
    if (is_first() && !std::exchange(has_told_deal_, true))
      warn(
          "the net has statistics over the global batch (sync_batch_norm): all workers wait for "
          "each other in the middle of a step, nobody's speed shows, and shards are dealt evenly");
    return;
  }
  std::vector<std::int64_t> shares;
  for (const ShardRange& range : group().membership().deal(parts_.options.shards))
    shares.push_back(range.hi - range.lo);
  dealer_.emplace(parts_.options.shards, std::move(shares));
}

std::string Fit::deal_text() const {
  std::string text = parts_.options.deals_by_speed ? "speed" : "deal";
  for (const ShardRange& range : group().membership().deal(parts_.options.shards))
    text += fmt::format(" {}", range.hi - range.lo);
  return text;
}

void Fit::redeal_if_worthwhile(const StepCost& cost) {
  const auto shares = dealer_->add(cost.seconds);
  if (!shares) return;
  group().redeal(*shares);
  engine_->replan(*parts_.options.mode);
  first_batches_.reset();
  loader_.emplace(dataset_, make_sampler(), loader_options());
  ++result_.deals;
  for (const CallbackPtr& callback : options_.callbacks) callback->on_deal(*this);
}

// What each worker needed, and how long it waited.
void Fit::compare_workers() {
  const WaitedTime own = engine_->waited();
  const double numbers[] = {peak_memory_mb(), own.seconds, own.of_seconds};
  const std::string bytes(reinterpret_cast<const char*>(numbers), sizeof numbers);
  double waited = 0.0, all = 0.0;
  for (const std::string& its : group().share(bytes)) {
    double of_worker[std::size(numbers)] = {};
    check(its.size() == sizeof of_worker, "numbers of another program");
    std::memcpy(of_worker, its.data(), its.size());
    result_.peak_memory_mb_by_worker.push_back(of_worker[0]);
    waited += of_worker[1];
    all += of_worker[2];
  }
  if (all > 0.0) result_.bubble = waited / all;
}

}  // namespace lockstep::train::detail
