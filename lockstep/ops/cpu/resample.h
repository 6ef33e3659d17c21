// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> interpolate();
std::span<const KernelCandidate> interpolate_backward();
std::span<const KernelCandidate> grid_sample();
std::span<const KernelCandidate> grid_sample_backward();

}  // namespace lockstep::kernels
