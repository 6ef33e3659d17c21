// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> softmax_kernels();
std::span<const KernelCandidate> log_softmax_kernels();
std::span<const KernelCandidate> softmax_backward_kernels();
std::span<const KernelCandidate> log_softmax_backward_kernels();

}  // namespace lockstep::kernels
