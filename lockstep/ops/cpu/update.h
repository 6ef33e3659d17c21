// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

struct SgdAttrs {
  double momentum = 0.9;
  double decay = 0.0;
  double scale = 1.0;
  template <class F>
  void visit(F&& f) {
    f("momentum", momentum);
    f("decay", decay);
    f("scale", scale);
  }
};

// Inputs weight, gradient, momentum buffer, rate; outputs weight, momentum buffer, which may be the
// inputs' own memory.
std::span<const KernelCandidate> sgd_momentum_kernels();

}  // namespace lockstep::kernels
