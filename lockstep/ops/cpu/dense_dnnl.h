// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

struct DenseSizes {
  std::int64_t rows, features, units;
};

// The library's inner products, float32 and bfloat16. Operands are matrices in plain layout; the
// weight is packed, or unpacked, in scratch on every run. None of the sizes is 0. Null when the
// library has nothing for it.
std::unique_ptr<PreparedKernel> inner_product(const KernelRequest& request, const DenseSizes& n,
                                              bool relu);
std::unique_ptr<PreparedKernel> inner_product_backward_data(const KernelRequest& request,
                                                            const DenseSizes& n);
std::unique_ptr<PreparedKernel> inner_product_backward_weights(const KernelRequest& request,
                                                               const DenseSizes& n);

}  // namespace lockstep::kernels
