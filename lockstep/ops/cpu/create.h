// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> full_kernels();
std::span<const KernelCandidate> arange_kernels();
std::span<const KernelCandidate> linspace_kernels();
std::span<const KernelCandidate> eye_kernels();

}  // namespace lockstep::kernels
