// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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

}  // namespace lockstep::observe
