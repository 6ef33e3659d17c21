// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> ctc_loss_kernels();
std::span<const KernelCandidate> ctc_loss_backward_kernels();

}  // namespace lockstep::kernels
