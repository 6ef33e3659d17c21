// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

// Inputs weight, gradient, momentum buffer, rate; outputs weight, momentum buffer, which may be the
// inputs' own memory.
std::span<const KernelCandidate> sgd_momentum_kernels();

}  // namespace lockstep::kernels
