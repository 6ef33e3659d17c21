// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/ops/attrs.h"

// Attributes of the shape family, public so that passes and tests can build them.
namespace lockstep {

struct ReshapeAttrs {
  Ints shape;  // one size may be -1
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
  }
};

struct TransposeAttrs {
  Ints axes;  // empty: reversed
  template <class F>
  void visit(F&& f) {
    f("axes", axes);
  }
};

struct ExpandAttrs {
  Ints shape;
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
  }
};

struct SqueezeAttrs {
  Ints axes;  // empty: every axis of size 1
  template <class F>
  void visit(F&& f) {
    f("axes", axes);
  }
};

struct ExpandDimsAttrs {
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis);
  }
};

struct SliceAttrs {
  Ints begin, end, step;  // step may be empty: all ones
  template <class F>
  void visit(F&& f) {
    f("begin", begin);
    f("end", end);
    f("step", step);
  }
};

struct SliceBackwardAttrs {
  Ints shape;  // of the sliced tensor
  Ints begin, end, step;
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
    f("begin", begin);
    f("end", end);
    f("step", step);
  }
};

struct FlipAttrs {
  Ints axes;
  template <class F>
  void visit(F&& f) {
    f("axes", axes);
  }
};

struct StopGradientAttrs {
  // What an autograd::Function gave, whose gradient only the tape knows.
  bool function = false;
  template <class F>
  void visit(F&& f) {
    f("function", function);
  }
};

struct ConcatAttrs {
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis);
  }
};

struct SplitAttrs {
  Ints sizes;
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("sizes", sizes);
    f("axis", axis);
  }
};

struct PadAttrs {
  Ints widths;  // before, after for each axis
  double value = 0.0;
  std::string mode = "constant";
  template <class F>
  void visit(F&& f) {
    f("widths", widths);
    f("value", value);
    f("mode", mode);
  }
};

struct PadBackwardAttrs {
  Ints widths;
  std::string mode = "edge";
  template <class F>
  void visit(F&& f) {
    f("widths", widths);
    f("mode", mode);
  }
};

struct TileAttrs {
  Ints repeats;
  template <class F>
  void visit(F&& f) {
    f("repeats", repeats);
  }
};

struct RepeatAttrs {
  std::int64_t repeats = 1;
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("repeats", repeats);
    f("axis", axis);
  }
};

}  // namespace lockstep
