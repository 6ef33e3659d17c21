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

void BoundedCurve::Stretch::add(const Stretch& other) {
  if (count == 0 || other.low.y < low.y) low = other.low;
  if (count == 0 || other.high.y > high.y) high = other.high;
  x_sum += other.x_sum;
  y_sum += other.y_sum;
  count += other.count;
}

void BoundedCurve::add(const CurvePoint& point) {
  if (!std::isfinite(point.y)) {
    ++not_finite_;
    return;
  }
  last_ = point;
  if (stretches_.empty() || stretches_.back().count == length_) {
    if (stretches_.size() == most_) halve();
    if (stretches_.empty() || stretches_.back().count == length_) stretches_.emplace_back();
  }
  stretches_.back().add({point.x, point.y, 1, point, point});
}

void BoundedCurve::halve() {
  std::vector<Stretch> halved((stretches_.size() + 1) / 2);
  for (std::size_t i = 0; i < stretches_.size(); ++i) halved[i / 2].add(stretches_[i]);
  stretches_ = std::move(halved);
  length_ *= 2;
}

std::vector<CurvePoint> BoundedCurve::means() const {
  std::vector<CurvePoint> points;
  for (const Stretch& one : stretches_) {
    const auto count = static_cast<double>(one.count);
    points.push_back({one.x_sum / count, one.y_sum / count});
  }
  return points;
}

std::vector<CurvePoint> BoundedCurve::extremes() const {
  std::vector<CurvePoint> points;
  for (const Stretch& one : stretches_) {
    const bool low_first = one.low.x <= one.high.x;
    points.push_back(low_first ? one.low : one.high);
    if (one.low.x != one.high.x) points.push_back(low_first ? one.high : one.low);
  }
  if (!points.empty() && points.back().x != last_.x) points.push_back(last_);
  return points;
}

}  // namespace lockstep::observe
