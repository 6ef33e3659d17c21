// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct InterpolateAttrs {
  Ints size = {};
  std::string mode = "nearest";
  bool align_corners = false;
  double scale = 0.0;

  template <class F>
  void visit(F&& f) {
    f("size", size, "the result's spatial sizes, or one size for all");
    f("mode", mode, "'nearest' (rounded down), 'nearest_exact' (of centres) or 'linear'");
    f("align_corners", align_corners, "linear: the first and last elements stay where they are");
    f("scale", scale,
      "the sizes are the input's times this, rounded down, and places follow from it; 0: they "
      "follow from the sizes");
  }
};

struct InterpolateBackwardAttrs {
  Ints input_size = {};
  std::string mode = "nearest";
  bool align_corners = false;
  double scale = 0.0;

  template <class F>
  void visit(F&& f) {
    f("input_size", input_size, "the spatial sizes of interpolate's input");
    f("mode", mode, "as in interpolate");
    f("align_corners", align_corners, "as in interpolate");
    f("scale", scale, "as in interpolate");
  }
};

struct GridSampleAttrs {
  std::string mode = "bilinear";
  std::string padding = "zeros";
  bool align_corners = false;

  template <class F>
  void visit(F&& f) {
    f("mode", mode, "'bilinear' or 'nearest'");
    f("padding", padding,
      "what lies outside: 'zeros', 'border' (its last element) or 'reflection'");
    f("align_corners", align_corners, "-1 and 1 are the corners' centres; false: their edges");
  }
};

// What one output along one axis is made of: element `low`, and `weight` of the way to `high`.
struct AxisTap {
  std::int64_t low, high;
  double weight;
};

// Whether places along an axis follow from the scale, and not from the sizes: those say the same
// unless the size was rounded.
bool uses_scale(const std::string& mode, bool align_corners, double scale, std::int64_t input,
                std::int64_t output);
// Of each output. Nearest ones have low alone, with weight 0.
std::vector<AxisTap> axis_taps(const std::string& mode, bool align_corners, double scale,
                               std::int64_t input, std::int64_t output);

}  // namespace lockstep
