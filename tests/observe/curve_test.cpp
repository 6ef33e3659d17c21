// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lockstep::observe {
namespace {

std::vector<CurvePoint> wave(int count) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < count; ++i) points.push_back({double(i), std::sin(i * 0.7) * i});
  return points;
}

TEST(Downsample, KeepsShortCurvesAsTheyAre) {
  EXPECT_EQ(downsample(wave(10), 10).size(), 10u);
  EXPECT_TRUE(downsample({}, 10).empty());
}

TEST(Downsample, KeepsEndsAndExtremesInOrder) {
  for (const std::size_t most : {4, 5, 100, 999}) {
    const std::vector<CurvePoint> all = wave(5000), few = downsample(all, most);
    EXPECT_LE(few.size(), most);
    EXPECT_EQ(few.front().x, 0);
    EXPECT_EQ(few.back().x, 4999);
    EXPECT_TRUE(std::ranges::is_sorted(few, {}, &CurvePoint::x));
    EXPECT_EQ(std::ranges::max(few, {}, &CurvePoint::y).y,
              std::ranges::max(all, {}, &CurvePoint::y).y);
    EXPECT_EQ(std::ranges::min(few, {}, &CurvePoint::y).y,
              std::ranges::min(all, {}, &CurvePoint::y).y);
  }
}

TEST(Downsample, LeavesOutWhatIsNotFinite) {
  const std::vector<CurvePoint> points = {{0, NAN}, {1, 5}, {2, INFINITY}, {3, 6}, {4, -INFINITY}};
  const auto kept = downsample(points, 100);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].x, 1);
  EXPECT_EQ(kept[1].x, 3);
}

TEST(Smooth, IsTheMeanOfTheNeighbourhood) {
  const std::vector<CurvePoint> points = wave(50), smoothed = smooth(points, 7);
  ASSERT_EQ(smoothed.size(), 50u);
  EXPECT_EQ(smoothed[0].y, points[0].y);
  for (std::size_t i = 3; i < 47; ++i) {
    double sum = 0;
    for (std::size_t k = i - 3; k <= i + 3; ++k) sum += points[k].y;
    EXPECT_NEAR(smoothed[i].y, sum / 7, 1e-9);
  }
  EXPECT_NEAR(smoothed[49].y, (points[46].y + points[47].y + points[48].y + points[49].y) / 4,
              1e-9);
}

TEST(Smooth, WithAWindowOfOneOrNoneChangesNothing) {
  for (const std::size_t window : {0, 1})
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_NEAR(smooth(wave(20), window)[i].y, wave(20)[i].y, 1e-9);
}

TEST(BoundedCurve, OfAFewPointsHasThemAll) {
  BoundedCurve curve(8);
  for (const CurvePoint& point : wave(8)) curve.add(point);
  EXPECT_TRUE(curve.has_all());
  ASSERT_EQ(curve.means().size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(curve.means()[i].x, wave(8)[i].x);
    EXPECT_EQ(curve.means()[i].y, wave(8)[i].y);
    EXPECT_EQ(curve.extremes()[i].y, wave(8)[i].y);
  }
}

TEST(BoundedCurve, OfManyPointsHasMeansAndEveryPeak) {
  constexpr std::size_t kPoints = 100000;
  BoundedCurve curve(64);
  for (std::size_t i = 0; i < kPoints; ++i)
    curve.add({static_cast<double>(i), i == 77777 ? 1000.0 : i == 3 ? -1000.0 : 1.0});
  const std::vector<CurvePoint> means = curve.means(), extremes = curve.extremes();
  EXPECT_FALSE(curve.has_all());
  EXPECT_LE(means.size(), 64u);
  EXPECT_GT(means.size(), 32u);
  EXPECT_LE(extremes.size(), 129u);
  EXPECT_TRUE(std::ranges::is_sorted(extremes, {}, &CurvePoint::x));
  const auto [low, high] = std::ranges::minmax(extremes, {}, &CurvePoint::y);
  EXPECT_EQ(low.x, 3);
  EXPECT_EQ(high.x, 77777);
  EXPECT_EQ(extremes.front().x, 0);
  EXPECT_EQ(extremes.back().x, kPoints - 1);
  EXPECT_NEAR(means[10].y, 1.0, 1e-9);
}

TEST(BoundedCurve, CountsWhatIsNotFinite) {
  BoundedCurve curve;
  curve.add({1, NAN});
  curve.add({2, 5});
  curve.add({3, INFINITY});
  EXPECT_EQ(curve.not_finite(), 2);
  EXPECT_EQ(curve.means().size(), 1u);
}

}  // namespace
}  // namespace lockstep::observe
