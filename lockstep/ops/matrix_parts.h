// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Of the matrices in the last two axes, what is on and below a diagonal (0 the main one, positive
// above it), zeros elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
// The same for what is on and above it.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
// A diagonal along two axes, as a new last axis: a window on x's memory.
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int axis1 = -2, int axis2 = -1);
// Of vectors in the last axis, matrices with them on a diagonal and zeros elsewhere.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0);
// A matrix's diagonal, or the matrix that has a vector on its diagonal.
Tensor diag(const Tensor& x, std::int64_t offset = 0);

}  // namespace lockstep
