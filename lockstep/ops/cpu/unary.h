// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

struct SlopeAttrs {
  double slope = 0.01;
  template <class F>
  void visit(F&& f) {
    f("slope", slope);
  }
};

struct EluAttrs {
  double alpha = 1.0;
  template <class F>
  void visit(F&& f) {
    f("alpha", alpha);
  }
};

struct GeluAttrs {
  bool approximate = false;
  template <class F>
  void visit(F&& f) {
    f("approximate", approximate);
  }
};

struct HardSigmoidAttrs {
  double alpha = 0.2;
  double beta = 0.5;
  template <class F>
  void visit(F&& f) {
    f("alpha", alpha);
    f("beta", beta);
  }
};

// The kernels of an op of ops/unary.cpp.
std::span<const KernelCandidate> unary_kernels(std::string_view op);

}  // namespace lockstep::kernels
