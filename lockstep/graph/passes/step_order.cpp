// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/step_order.h"

#include <algorithm>

namespace lockstep::passes {
namespace {

// Between neighbours: room for many steps after one and the same, and for chains of steps that are
// each put after the one before.
constexpr std::int64_t kSpacing = std::int64_t{1} << 36;
constexpr std::int64_t kOffset = std::int64_t{1} << 16;

}  // namespace

void StepOrder::append() {
  links_.emplace_back();
  insert(links_.size() - 1, links_[0].before);
}

void StepOrder::move_after(std::size_t step, std::size_t place) {
  const std::size_t link = step + 1, target = place == kFront ? 0 : place + 1;
  if (links_[link].before == target) return;
  links_[links_[link].before].after = links_[link].after;
  links_[links_[link].after].before = links_[link].before;
  insert(link, target);
}

void StepOrder::insert(std::size_t link, std::size_t place) {
  const std::int64_t label = label_after(place);
  const std::size_t next = links_[place].after;
  links_[link] = {place, next, label};
  links_[place].after = link;
  links_[next].before = link;
}

std::int64_t StepOrder::label_after(std::size_t place) {
  const std::size_t next = links_[place].after;
  if (next == 0) return links_[place].label + kSpacing;
  const std::int64_t gap = links_[next].label - links_[place].label;
  if (gap >= 2) return links_[next].label - std::min(gap / 2, kOffset);
  relabel();
  return label_after(place);
}

void StepOrder::relabel() {
  ++relabelled_;
  std::int64_t label = 0;
  for (std::size_t link = links_[0].after; link != 0; link = links_[link].after)
    links_[link].label = label += kSpacing;
}

std::vector<std::size_t> StepOrder::steps() const {
  std::vector<std::size_t> steps;
  steps.reserve(links_.size() - 1);
  for (std::size_t link = links_[0].after; link != 0; link = links_[link].after)
    steps.push_back(link - 1);
  return steps;
}

}  // namespace lockstep::passes
