// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep {

struct AttentionAttrs {
  bool causal = false;
  double scale = 0.0;  // 0: 1 / sqrt(D)

  template <class F>
  void visit(F&& f) {
    f("causal", causal);
    f("scale", scale);
  }

  double scale_for(std::int64_t depth) const;
};

}  // namespace lockstep

namespace lockstep::kernels {

std::span<const KernelCandidate> attention_kernels();
std::span<const KernelCandidate> attention_backward_kernels();

}  // namespace lockstep::kernels
