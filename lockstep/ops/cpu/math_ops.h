// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

// The kernels of an op of ops/math_ops.cpp.
std::span<const KernelCandidate> math_kernels(std::string_view op);

}  // namespace lockstep::kernels
