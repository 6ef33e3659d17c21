// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/interpolate_axes.h"

#include <algorithm>

namespace lockstep::kernels {

ResampleProblem::ResampleProblem(const Shape& x, const Shape& y, const std::string& mode,
                                 bool align_corners, double scale)
    : planes(x[0] * x[1]), linear(mode == "linear") {
  const int skip = 5 - x.rank();
  for (int axis = 0; axis < 3; ++axis) {
    TapAxis& a = axes[static_cast<std::size_t>(axis)];
    if (axis >= skip) {
      a.input = x[axis - skip + 2];
      a.output = y[axis - skip + 2];
    }
    const double own = axis >= skip ? scale : 0.0;
    a.taps = axis_taps(mode, align_corners, own, a.input, a.output);
    a.same = a.input == a.output && !uses_scale(mode, align_corners, own, a.input, a.output);
  }
}

ShareAxis shares_of(const TapAxis& axis, bool linear) {
  ShareAxis result;
  result.shares.resize(static_cast<std::size_t>(axis.input));
  for (std::int64_t o = 0; o < axis.output; ++o) {
    const AxisTap& tap = axis.taps[static_cast<std::size_t>(o)];
    const auto add = [&](std::int64_t input, double weight) {
      result.shares[static_cast<std::size_t>(input)].push_back({o, weight});
    };
    if (!linear || axis.same || tap.low == tap.high) {
      add(tap.low, 1.0);
    } else {
      add(tap.low, 1.0 - tap.weight);
      add(tap.high, tap.weight);
    }
  }
  for (const auto& shares : result.shares) result.most = std::max(result.most, shares.size());
  return result;
}

}  // namespace lockstep::kernels
