// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/parallel/detail/rows_svg.h"
#include "lockstep/parallel/schedule.h"

namespace lockstep::parallel {
namespace {

// How a pass is shown.
struct Look {
  char first_mark;  // of shard 0
  const char *name, *colour;
};
const Look& look_of(const TimedAction& timed) {
  static constexpr Look kForward{'0', "forward", "#4477aa"}, kBackward{'a', "backward", "#cc6677"},
      kWeights{'A', "weights' gradients", "#ddaa33"};
  if (timed.action.kind == Action::Kind::forward) return kForward;
  return timed.action.kind == Action::Kind::backward ? kBackward : kWeights;
}

char mark_of(const TimedAction& timed) {
  return static_cast<char>(look_of(timed).first_mark + timed.action.shard % 10);
}

bool has_weights(const Timeline& timeline) {
  for (const auto& stage : timeline.stages)
    for (const TimedAction& timed : stage)
      if (timed.action.kind == Action::Kind::weights) return true;
  return false;
}

}  // namespace

double Timeline::bubble() const {
  double busy = 0.0;
  for (const auto& stage : stages)
    for (const TimedAction& timed : stage) busy += timed.end - timed.begin;
  const double all = seconds * static_cast<double>(stages.size());
  return all > 0.0 ? 1.0 - busy / all : 0.0;
}

std::string timeline_text(const Timeline& timeline, int columns) {
  std::string text;
  const double scale = static_cast<double>(columns) / std::max(timeline.seconds, 1e-12);
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string line(static_cast<std::size_t>(columns), '.');
    for (const TimedAction& timed : timeline.stages[stage]) {
      const auto begin = static_cast<std::size_t>(std::lround(timed.begin * scale));
      const auto end = static_cast<std::size_t>(std::lround(timed.end * scale));
      for (std::size_t i = begin; i < std::min(end, line.size()); ++i) line[i] = mark_of(timed);
    }
    text += fmt::format("stage {:<2} {}\n", stage, line);
  }
  return text +
         fmt::format("(0, 1, ...: forward of that shard; a, b, ...: its backward; {}.: waits)\n",
                     has_weights(timeline) ? "A, B, ...: its weights' gradients; " : "");
}

std::string timeline_svg(const Timeline& timeline) {
  std::vector<detail::Row> rows;
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    rows.push_back({fmt::format("stage {}", stage)});
    for (const TimedAction& timed : timeline.stages[stage])
      rows.back().boxes.push_back(
          {timed.begin, timed.end, look_of(timed).colour,
           fmt::format("{} of shard {}", look_of(timed).name, timed.action.shard),
           std::to_string(timed.action.shard)});
  }
  return detail::rows_svg(rows, timeline.seconds);
}

}  // namespace lockstep::parallel
