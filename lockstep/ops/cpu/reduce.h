// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> sum_kernels();
std::span<const KernelCandidate> mean_kernels();
std::span<const KernelCandidate> prod_kernels();
std::span<const KernelCandidate> max_kernels();
std::span<const KernelCandidate> min_kernels();
std::span<const KernelCandidate> var_kernels();
std::span<const KernelCandidate> norm_kernels();
std::span<const KernelCandidate> logsumexp_kernels();
std::span<const KernelCandidate> argmax_kernels();
std::span<const KernelCandidate> argmin_kernels();
std::span<const KernelCandidate> cumsum_kernels();
std::span<const KernelCandidate> cumprod_kernels();
std::span<const KernelCandidate> linear_scan_kernels();
std::span<const KernelCandidate> any_kernels();
std::span<const KernelCandidate> all_kernels();
std::span<const KernelCandidate> stddev_kernels();

// For floating dtypes, with SIMD.
void sum_floats(const KernelCall& call);
void mean_floats(const KernelCall& call);
void max_floats(const KernelCall& call);
void min_floats(const KernelCall& call);
void var_floats(const KernelCall& call);
void norm_floats(const KernelCall& call);
void logsumexp_floats(const KernelCall& call);

}  // namespace lockstep::kernels
