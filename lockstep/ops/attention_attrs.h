// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

namespace lockstep {

// Of attention and attention_backward.
struct AttentionAttrs {
  bool causal = false;
  double scale = 0.0;

  template <class F>
  void visit(F&& f) {
    f("causal", causal, "row i sees columns 0 to i + S - T alone");
    f("scale", scale, "what the products q k^T are multiplied by; 0: 1 / sqrt(D)");
  }

  double scale_for(std::int64_t depth) const;
};

}  // namespace lockstep
