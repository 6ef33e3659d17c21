// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/ops/attrs.h"

// Attributes of the shape family, public so that passes and tests can build them.
namespace lockstep {

struct ReshapeAttrs {
  Ints shape;
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the new sizes; one may be -1: what is left");
  }
};

struct TransposeAttrs {
  Ints axes;
  template <class F>
  void visit(F&& f) {
    f("axes", axes, "which axis of x each axis of the result is; none: all in reverse");
  }
};

struct ExpandAttrs {
  Ints shape;
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the sizes to broadcast to");
  }
};

struct SqueezeAttrs {
  Ints axes;
  template <class F>
  void visit(F&& f) {
    f("axes", axes, "the axes to drop, each of size 1; none: every axis of size 1");
  }
};

struct ExpandDimsAttrs {
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "where the new axis stands in the result");
  }
};

struct SliceAttrs {
  Ints begin, end, step;
  template <class F>
  void visit(F&& f) {
    f("begin", begin, "the first position along each axis; negative ones count from the end");
    f("end", end, "the position before which each axis ends; the axes beyond stay whole");
    f("step", step, "the distance of two positions, not 0; none: all 1");
  }
};

struct SliceBackwardAttrs {
  Ints shape;
  Ints begin, end, step;
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the sizes of what was sliced");
    f("begin", begin, "as in slice");
    f("end", end, "as in slice");
    f("step", step, "as in slice");
  }
};

struct FlipAttrs {
  Ints axes;
  template <class F>
  void visit(F&& f) {
    f("axes", axes, "the axes to reverse; none: all");
  }
};

struct RollAttrs {
  Ints shifts;
  Ints axes;
  template <class F>
  void visit(F&& f) {
    f("shifts", shifts, "by how many places, for each axis named");
    f("axes", axes, "the axes to move along; none: all as one, in row-major order");
  }
};

struct StopGradientAttrs {
  // What an autograd::Function gave, whose gradient only the tape knows.
  bool function = false;
  template <class F>
  void visit(F&& f) {
    f("function", function, "x is what a function with a gradient of its own gave");
  }
};

struct ConcatAttrs {
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis along which the parts follow each other");
  }
};

struct SplitAttrs {
  Ints sizes;
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("sizes", sizes, "how many elements each part has along the axis");
    f("axis", axis, "the axis to cut");
  }
};

struct PadAttrs {
  Ints widths;
  double value = 0.0;
  std::string mode = "constant";
  template <class F>
  void visit(F&& f) {
    f("widths", widths, "how many elements are added before and after, for each axis in turn");
    f("value", value, "what is added where the mode is constant");
    f("mode", mode,
      "'constant', 'edge' (the last element again), 'reflect' (a mirror there) or 'circular' (the "
      "other end)");
  }
};

struct PadBackwardAttrs {
  Ints widths;
  std::string mode = "edge";
  template <class F>
  void visit(F&& f) {
    f("widths", widths, "as in pad");
    f("mode", mode, "'edge', 'reflect' or 'circular'");
  }
};

struct TileAttrs {
  Ints repeats;
  template <class F>
  void visit(F&& f) {
    f("repeats", repeats, "how many copies follow each other along each axis");
  }
};

struct RepeatAttrs {
  std::int64_t repeats = 1;
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("repeats", repeats, "how often each element comes");
    f("axis", axis, "the axis along which copies of an element stand");
  }
};

}  // namespace lockstep
