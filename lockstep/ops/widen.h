// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

namespace lockstep {

// Computes a float16 or bfloat16 request with the op's float32 kernel, converting on the way in and
// out. Returns nullptr when the op has no float32 kernel either.
std::unique_ptr<PreparedKernel> prepare_in_float32(const KernelRequest& request);

}  // namespace lockstep
