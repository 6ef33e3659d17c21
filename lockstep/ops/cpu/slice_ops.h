// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> slice_spread_kernels();
std::span<const KernelCandidate> slice_sum_kernels();
std::span<const KernelCandidate> slice_max_kernels();
std::span<const KernelCandidate> slice_split_kernels();
std::span<const KernelCandidate> slice_gather_kernels();

}  // namespace lockstep::kernels
