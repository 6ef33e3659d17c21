// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the loss and ctc families.
namespace lockstep {

struct CrossEntropyAttrs {
  double smoothing = 0.0;
  template <class F>
  void visit(F&& f) {
    f("smoothing", smoothing, "this share of the label's weight is spread over all classes");
  }
};

struct CtcAttrs {
  std::int64_t blank = 0;
  template <class F>
  void visit(F&& f) {
    f("blank", blank, "the class that stands between labels and for nothing");
  }
};

}  // namespace lockstep
