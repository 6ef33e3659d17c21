// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

// The class number of a row. Throws InvalidArgument that names both when it is out of range.
std::int64_t label_of(const TensorView& labels, std::int64_t row, std::int64_t classes);

std::span<const KernelCandidate> softmax_cross_entropy_kernels();
std::span<const KernelCandidate> softmax_cross_entropy_backward_kernels();
std::span<const KernelCandidate> sigmoid_cross_entropy_kernels();
std::span<const KernelCandidate> class_numbers_kernels();

}  // namespace lockstep::kernels
