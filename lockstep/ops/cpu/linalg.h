// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> cholesky_kernels();
std::span<const KernelCandidate> solve_kernels();
std::span<const KernelCandidate> solve_triangular_kernels();
std::span<const KernelCandidate> inverse_kernels();
std::span<const KernelCandidate> det_kernels();
std::span<const KernelCandidate> cofactors_kernels();
std::span<const KernelCandidate> slogdet_kernels();
std::span<const KernelCandidate> svd_kernels();
std::span<const KernelCandidate> qr_kernels();
std::span<const KernelCandidate> eigh_kernels();

}  // namespace lockstep::kernels
