// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the reduce family.
namespace lockstep {

struct ReduceAttrs {
  Ints axes;
  bool keepdims = false;
  template <class F>
  void visit(F&& f) {
    f("axes", axes, "the axes to reduce, negative ones counted from the last; none: all");
    f("keepdims", keepdims, "reduced axes stay, with size 1");
  }
};

struct VarAttrs {
  Ints axes;
  bool keepdims = false;
  int ddof = 0;
  template <class F>
  void visit(F&& f) {
    f("axes", axes, "the axes to reduce, negative ones counted from the last; none: all");
    f("keepdims", keepdims, "reduced axes stay, with size 1");
    f("ddof", ddof, "n elements are divided by n - ddof; 1 gives the unbiased estimate");
  }
};

struct NormAttrs {
  int ord = 2;
  Ints axes;
  bool keepdims = false;
  template <class F>
  void visit(F&& f) {
    f("ord", ord, "1: the sum of magnitudes; 2: the square root of the sum of squares");
    f("axes", axes, "the axes to reduce, negative ones counted from the last; none: all");
    f("keepdims", keepdims, "reduced axes stay, with size 1");
  }
};

struct ArgAttrs {
  int axis = -1;
  bool keepdims = false;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis to search along");
    f("keepdims", keepdims, "the searched axis stays, with size 1");
  }
};

// Of cumprod and linear_scan.
struct ScanAttrs {
  int axis = -1;
  bool reverse = false;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis to go along");
    f("reverse", reverse, "begin at the end of the axis");
  }
};

struct CumsumAttrs {
  int axis = -1;
  bool reverse = false;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis to add up along");
    f("reverse", reverse, "begin at the end of the axis");
  }
};

}  // namespace lockstep
