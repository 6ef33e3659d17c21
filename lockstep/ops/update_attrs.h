// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

namespace lockstep {

// Of sgd_momentum_update.
struct SgdAttrs {
  double momentum = 0.9;
  double decay = 0.0;
  double scale = 1.0;
  template <class F>
  void visit(F&& f) {
    f("momentum", momentum, "how much of the last step is taken again");
    f("decay", decay, "this times the weight is added to its gradient");
    f("scale", scale, "what the gradient is multiplied by first");
  }
};

}  // namespace lockstep
