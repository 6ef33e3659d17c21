// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/op.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> reshape_kernels();
std::span<const KernelCandidate> concat_kernels();
std::span<const KernelCandidate> split_kernels();
std::span<const KernelCandidate> pad_kernels();
std::span<const KernelCandidate> pad_backward_kernels();
std::span<const KernelCandidate> tile_kernels();
std::span<const KernelCandidate> repeat_kernels();

// Fills `out` with zeros except for the window `spec` of it, which becomes `in`.
void write_window_in_zeros(const TensorView& in, const TensorView& out, const ViewSpec& spec);

}  // namespace lockstep::kernels
