// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the unary family.
namespace lockstep {

struct SlopeAttrs {
  double slope = 0.01;
  template <class F>
  void visit(F&& f) {
    f("slope", slope, "what negative elements are multiplied by");
  }
};

struct EluAttrs {
  double alpha = 1.0;
  template <class F>
  void visit(F&& f) {
    f("alpha", alpha, "minus the value that large negative elements approach");
  }
};

struct GeluAttrs {
  bool approximate = false;
  template <class F>
  void visit(F&& f) {
    f("approximate", approximate, "the tanh form, 0.5 x (1 + tanh(0.7979 (x + 0.0447 x^3)))");
  }
};

struct HardSigmoidAttrs {
  double alpha = 0.2;
  double beta = 0.5;
  template <class F>
  void visit(F&& f) {
    f("alpha", alpha, "the slope of the straight part");
    f("beta", beta, "the value at 0");
  }
};

}  // namespace lockstep
