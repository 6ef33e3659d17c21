// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/ops/resample_attrs.h"

namespace lockstep::kernels {

// One axis in the direction of the result: what each output is made of.
struct TapAxis {
  std::int64_t input = 1, output = 1;
  std::vector<AxisTap> taps;
  bool same = true;  // output i is input i
};

// One axis in the direction of the gradient: for each input the outputs that it is part of, in
// their order.
struct ShareAxis {
  struct Share {
    std::int64_t output;
    double weight;
  };
  std::vector<std::vector<Share>> shares;
  std::size_t most = 0;  // shares that an input has
};

// A resampling in three spatial axes, the missing ones first and of size 1.
struct ResampleProblem {
  ResampleProblem(const Shape& x, const Shape& y, const std::string& mode, bool align_corners,
                  double scale);

  std::int64_t planes;
  bool linear;
  std::array<TapAxis, 3> axes;
};

ShareAxis shares_of(const TapAxis& axis, bool linear);

}  // namespace lockstep::kernels
