// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

namespace lockstep {

// Of the whole softmax family.
struct SoftmaxAttrs {
  int axis = -1;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis whose elements compete");
  }
};

}  // namespace lockstep
