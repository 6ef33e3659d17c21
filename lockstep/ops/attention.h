// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// softmax(q k^T * scale + mask) v over [B, H, T, D] (k and v may be longer than q: [B, H, S, D]).
// mask is undefined, bool (false: never look there) or a float added to the scores, and broadcasts
// to [B, H, T, S]. causal: row i sees columns 0..i + S - T. scale 0 means 1 / sqrt(D).
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, bool causal = false,
                                    double scale = 0.0);

}  // namespace lockstep
