// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/ops/kernel.h"

namespace lockstep {

// A kernel with one input and one output that changes layout, dtype or both. The shapes are equal.
// Throws Unsupported when a blocked layout meets a dtype that the kernel library does not have.
std::unique_ptr<PreparedKernel> make_reorder(const TensorInfo& from_info, const Layout& from,
                                             const TensorInfo& to_info, const Layout& to);

// The same arrangement for elements of another dtype.
Layout with_dtype(const Layout& layout, DType dtype);

}  // namespace lockstep
