// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep {

struct CtcAttrs {
  std::int64_t blank = 0;
  template <class F>
  void visit(F&& f) {
    f("blank", blank);
  }
};

namespace kernels {

std::span<const KernelCandidate> ctc_loss_kernels();
std::span<const KernelCandidate> ctc_loss_backward_kernels();

}  // namespace kernels
}  // namespace lockstep
