// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> matmul_kernels();
std::span<const KernelCandidate> dense_kernels();
std::span<const KernelCandidate> dense_backward_data_kernels();
std::span<const KernelCandidate> dense_backward_weights_kernels();

}  // namespace lockstep::kernels
