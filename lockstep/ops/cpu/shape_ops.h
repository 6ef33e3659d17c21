// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/op.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> reshape();
std::span<const KernelCandidate> concat();
std::span<const KernelCandidate> split();
std::span<const KernelCandidate> pad();
std::span<const KernelCandidate> pad_backward();
std::span<const KernelCandidate> tile();
std::span<const KernelCandidate> repeat();

// Fills `out` with zeros except for the window `spec` of it, which becomes `in`.
void write_window_in_zeros(const TensorView& in, const TensorView& out, const ViewSpec& spec);

}  // namespace lockstep::kernels
