// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the linalg family.
namespace lockstep {

struct TriangularAttrs {
  bool upper = false;
  bool transpose = false;
  template <class F>
  void visit(F&& f) {
    f("upper", upper, "the upper triangle of a counts, else the lower one");
    f("transpose", transpose, "a's transpose is solved");
  }
};

}  // namespace lockstep
