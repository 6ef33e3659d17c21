// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

// Whether channels of float32 [N, C, ...] can be summed in this layout: plain, or in blocks of
// channels.
bool can_sum_channels(const Layout& layout);

// The kernel, and after it output 1 is the sum of each channel of input 1. oneDNN's own gradient of
// a bias adds one term after another in float32: of 30,000 equal ones it loses the fourth digit.
std::unique_ptr<PreparedKernel> channel_sums_after(std::unique_ptr<PreparedKernel> kernel,
                                                   const TensorInfo& summed);

}  // namespace lockstep::kernels
