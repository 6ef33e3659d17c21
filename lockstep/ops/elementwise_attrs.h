// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "lockstep/ops/attrs.h"

// Attributes of the elementwise family.
namespace lockstep {

struct ClipAttrs {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  template <class F>
  void visit(F&& f) {
    f("low", low, "smaller elements become this");
    f("high", high, "larger elements become this");
  }
};

struct CastAttrs {
  DType dtype = DType::float32;
  template <class F>
  void visit(F&& f) {
    f("dtype", dtype, "what the elements become");
  }
};

}  // namespace lockstep
