// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/curve.h"

#include <algorithm>
#include <cmath>

namespace lockstep::observe {
namespace {

std::vector<CurvePoint> finite_points(std::span<const CurvePoint> points) {
  std::vector<CurvePoint> kept;
  for (const CurvePoint& point : points)
    if (std::isfinite(point.y)) kept.push_back(point);
  return kept;
}

void append_extremes(std::span<const CurvePoint> stretch, std::vector<CurvePoint>& to) {
  if (stretch.empty()) return;
  auto [low, high] = std::ranges::minmax_element(stretch, {}, &CurvePoint::y);
  if (high < low) std::swap(low, high);
  to.push_back(*low);
  if (high != low) to.push_back(*high);
}

}  // namespace

std::vector<CurvePoint> downsample(std::span<const CurvePoint> points, std::size_t most) {
  std::vector<CurvePoint> all = finite_points(points);
  if (all.size() <= most) return all;
  const std::span<const CurvePoint> middle = std::span(all).subspan(1, all.size() - 2);
  const std::size_t stretches = std::max<std::size_t>(1, (most - 2) / 2);
  std::vector<CurvePoint> kept = {all.front()};
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t begin = middle.size() * i / stretches;
    const std::size_t end = middle.size() * (i + 1) / stretches;
    append_extremes(middle.subspan(begin, end - begin), kept);
  }
  kept.push_back(all.back());
  return kept;
}

std::vector<CurvePoint> smooth(std::span<const CurvePoint> points, std::size_t window) {
  std::vector<CurvePoint> all = finite_points(points);
  std::vector<double> sums(all.size() + 1, 0);
  for (std::size_t i = 0; i < all.size(); ++i) sums[i + 1] = sums[i] + all[i].y;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t before = std::min(window / 2, i);
    const std::size_t after = std::min(before, all.size() - 1 - i);
    all[i].y = (sums[i + after + 1] - sums[i - before]) / static_cast<double>(before + after + 1);
  }
  return all;
}

}  // namespace lockstep::observe
