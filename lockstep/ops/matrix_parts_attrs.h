// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the matrix_parts family.
namespace lockstep {

struct TriangleAttrs {
  std::int64_t diagonal = 0;
  template <class F>
  void visit(F&& f) {
    f("diagonal", diagonal, "the last one that is kept: 0 the main one, positive above it");
  }
};

struct DiagonalAttrs {
  std::int64_t offset = 0;
  int axis1 = -2;
  int axis2 = -1;
  template <class F>
  void visit(F&& f) {
    f("offset", offset, "which diagonal: 0 the main one, positive above it");
    f("axis1", axis1, "the axis of rows");
    f("axis2", axis2, "the axis of columns");
  }
};

struct DiagonalBackwardAttrs {
  Ints shape;
  std::int64_t offset = 0;
  int axis1 = -2;
  int axis2 = -1;
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the sizes of what the diagonal was taken of");
    f("offset", offset, "as in diagonal");
    f("axis1", axis1, "as in diagonal");
    f("axis2", axis2, "as in diagonal");
  }
};

}  // namespace lockstep
