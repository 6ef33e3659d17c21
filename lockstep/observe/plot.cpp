// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

constexpr int kDotsAcross = 2, kDotsDown = 4;
constexpr int kLeastColumns = 8, kLeastRows = 2;
// Unicode's order of the dots of U+2800: [row][column].
constexpr unsigned kDots[kDotsDown][kDotsAcross] = {
    {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

struct Range {
  double low = 0, high = 0;
  // 0 to 1; the middle when there is no width.
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

template <class Value>
Range range_of(std::span<const CurvePoint> points, Value value) {
  const auto [low, high] = std::ranges::minmax_element(points, {}, value);
  return {(*low).*value, (*high).*value};
}

// A screen of dots, row 0 on top.
class Dots {
 public:
  Dots(int columns, int rows)
      : rows_(static_cast<std::size_t>(rows),
              std::vector<unsigned>(static_cast<std::size_t>(columns), 0)) {}
  void set(int across, int down) {
    auto& row = rows_[static_cast<std::size_t>(down / kDotsDown)];
    row[static_cast<std::size_t>(across / kDotsAcross)] |=
        kDots[down % kDotsDown][across % kDotsAcross];
  }
  std::string row(int index) const {
    std::string text;
    for (const unsigned bits : rows_[static_cast<std::size_t>(index)]) {
      const unsigned code = 0x2800 + bits;
      text += static_cast<char>(0xE0 | code >> 12);
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
    return text;
  }

 private:
  std::vector<std::vector<unsigned>> rows_;
};

// Where each column of dots begins and ends; columns without a value join their neighbours.
struct Extent {
  int top = 0, bottom = -1;
  void include(int down) {
    const bool empty = bottom < top;
    top = empty ? down : std::min(top, down);
    bottom = empty ? down : std::max(bottom, down);
  }
};

std::vector<Extent> extents(std::span<const CurvePoint> points, int across, int down) {
  const Range x = range_of(points, &CurvePoint::x), y = range_of(points, &CurvePoint::y);
  const auto place = [](double part, int size) {
    return std::clamp(static_cast<int>(std::lround(part * (size - 1))), 0, size - 1);
  };
  std::vector<Extent> found(static_cast<std::size_t>(across));
  const CurvePoint* before = &points.front();
  for (const CurvePoint& point : points) {
    const int begin = place(x.place(before->x), across), end = place(x.place(point.x), across);
    for (int c = begin; c <= end; ++c) {
      const double part = end > begin ? static_cast<double>(c - begin) / (end - begin) : 1.0;
      const double value = before->y + part * (point.y - before->y);
      found[static_cast<std::size_t>(c)].include(place(1 - y.place(value), down));
    }
    before = &point;
  }
  return found;
}

std::string x_axis(const Range& x, const PlotOptions& options, std::size_t indent, int columns) {
  const std::string left = fmt::format("{} {:g}", options.x_name, x.low);
  const std::string right = fmt::format("{:g}", x.high);
  const auto used = static_cast<int>(left.size() + right.size());
  return fmt::format("{:{}}{}{:{}}{}\n", "", indent, left, "", std::max(1, columns - used), right);
}

}  // namespace

std::string plot_curve(std::span<const CurvePoint> given, const PlotOptions& options) {
  const std::vector<CurvePoint> points = smooth(given, 1);
  if (points.empty()) return "";
  const Range x = range_of<>(std::span(points), &CurvePoint::x);
  const Range y = range_of<>(std::span(points), &CurvePoint::y);
  const std::string top = format_value(y.high), bottom = format_value(y.low);
  const std::size_t indent = std::max(top.size(), bottom.size()) + 1;
  const int columns = std::max(kLeastColumns, options.columns - static_cast<int>(indent));
  const int rows = std::max(kLeastRows, options.rows);

  Dots dots(columns, rows);
  const auto found = extents(points, columns * kDotsAcross, rows * kDotsDown);
  for (std::size_t c = 0; c < found.size(); ++c)
    for (int d = found[c].top; d <= found[c].bottom; ++d) dots.set(static_cast<int>(c), d);

  std::string text;
  for (int r = 0; r < rows; ++r) {
    const std::string label = r == 0 ? top : r == rows - 1 ? bottom : "";
    text += fmt::format("{:>{}} {}\n", label, indent - 1, dots.row(r));
  }
  return text + x_axis(x, options, indent, columns);
}

}  // namespace lockstep::observe
