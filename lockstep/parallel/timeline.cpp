// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
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
  constexpr double kWidth = 1000.0, kRow = 28.0, kLeft = 70.0;
  const double scale = kWidth / std::max(timeline.seconds, 1e-12);
  const double height = kRow * static_cast<double>(timeline.stages.size()) + 10.0;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n",
      kWidth + kLeft + 10.0, height);
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const double top = 5.0 + kRow * static_cast<double>(stage);
    svg += fmt::format("<text x=\"5\" y=\"{:.1f}\">stage {}</text>\n", top + 16.0, stage);
    for (const TimedAction& timed : timeline.stages[stage]) {
      const double left = kLeft + timed.begin * scale, width = (timed.end - timed.begin) * scale;
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"22\" fill=\"{}\" "
          "stroke=\"white\"><title>{} of shard {}</title></rect>\n",
          left, top, width, look_of(timed).colour, look_of(timed).name, timed.action.shard);
      if (width > 14.0)
        svg += fmt::format(
            "<text x=\"{:.2f}\" y=\"{:.1f}\" fill=\"white\" text-anchor=\"middle\">{}</text>\n",
            left + width / 2.0, top + 15.0, timed.action.shard);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep::parallel
