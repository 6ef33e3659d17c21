// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Lists as in ConvOptions; an empty stride means the kernel's size.
struct PoolOptions {
  Ints kernel;
  Ints stride = {};
  Ints padding = {};
  bool ceil_mode = false;         // round the output size up
  bool count_include_pad = true;  // average: does padding count
  Ints dilation = {};             // max: the distance of a window's elements; none: 1
};

// x [N, C, spatial...], 1-d, 2-d or 3-d.
Tensor max_pool(const Tensor& x, const PoolOptions& options);
Tensor avg_pool(const Tensor& x, const PoolOptions& options);
// To [N, C, 1...].
Tensor global_avg_pool(const Tensor& x);
Tensor global_max_pool(const Tensor& x);
// To [N, C, output_size...], by windows as even as they can be.
Tensor adaptive_avg_pool(const Tensor& x, const Ints& output_size);
Tensor adaptive_max_pool(const Tensor& x, const Ints& output_size);

}  // namespace lockstep
