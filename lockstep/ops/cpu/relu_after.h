// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

// The kernel with relu on its first output, float32 or bfloat16, in whatever layout. oneDNN's own
// fused relu is max(x, 0), which makes 0 of NaN; this one leaves NaN as it is.
std::unique_ptr<PreparedKernel> relu_after(std::unique_ptr<PreparedKernel> kernel,
                                           const TensorInfo& output);

}  // namespace lockstep::kernels
