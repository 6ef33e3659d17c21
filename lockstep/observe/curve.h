// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::observe {

struct CurvePoint {
  double x = 0;
  double y = 0;
};

// At most `most` points (4 or more) that look the same: of each stretch the lowest and the highest
// one, so that no peak is lost; the first and the last stay. Points whose y is not finite are left
// out.
std::vector<CurvePoint> downsample(std::span<const CurvePoint> points, std::size_t most);

// The mean of each point's neighbourhood, `window` points wide, so that nothing lags. It is
// narrower at the start, whose values are their own, and ends at the curve's end. Points whose y is
// not finite are left out.
std::vector<CurvePoint> smooth(std::span<const CurvePoint> points, std::size_t window);

// A curve of any number of points in bounded memory. While they are few it has them all; then
// stretches of neighbours, each twice as long whenever there are too many. Points whose y is not
// finite are counted only.
class BoundedCurve {
 public:
  // `most` stretches: 2 or more.
  explicit BoundedCurve(std::size_t most = 16384) : most_(most) {}
  void add(const CurvePoint& point);
  std::int64_t not_finite() const { return not_finite_; }
  bool has_all() const { return length_ == 1; }
  // One point a stretch: its mean.
  std::vector<CurvePoint> means() const;
  // The lowest and the highest point of each stretch, and the curve's last one.
  std::vector<CurvePoint> extremes() const;

 private:
  struct Stretch {
    double x_sum = 0, y_sum = 0;
    std::int64_t count = 0;
    CurvePoint low, high;
    void add(const Stretch& other);
  };
  void halve();

  std::size_t most_;
  std::int64_t length_ = 1;  // of a stretch
  std::int64_t not_finite_ = 0;
  std::vector<Stretch> stretches_;
  CurvePoint last_;
};

}  // namespace lockstep::observe
