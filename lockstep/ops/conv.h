// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Spatial lists have one entry for each spatial axis; a list of one serves all, an empty one means
// 1 (stride, dilation) or 0 (padding).
struct ConvOptions {
  Ints stride = {};
  Ints padding = {};
  Ints dilation = {};
  std::int64_t groups = 1;
};

// x [N, C, spatial...], weight [O, C / groups, kernel...], bias [O] or undefined; 1-d, 2-d or 3-d.
Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
            const ConvOptions& options = {});

// x [N, C, spatial...], weight [C, O / groups, kernel...]: conv's gradient as a forward op.
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                      const ConvOptions& options = {}, const Ints& output_padding = {});

}  // namespace lockstep
