// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// No axes: all of them. `keepdims` leaves reduced axes at size 1.
Tensor sum(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
Tensor mean(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
Tensor prod(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
Tensor max(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
Tensor min(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
// Divides by n - ddof.
Tensor var(const Tensor& x, const Ints& axes = {}, bool keepdims = false, int ddof = 0);
// ord 1 or 2.
Tensor norm(const Tensor& x, int ord = 2, const Ints& axes = {}, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
// int64 positions; the first of equals.
Tensor argmax(const Tensor& x, int axis = -1, bool keepdims = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keepdims = false);
Tensor cumsum(const Tensor& x, int axis = -1, bool reverse = false);

}  // namespace lockstep
