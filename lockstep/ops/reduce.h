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
// The square root of var; its gradient is 0 where all elements are equal.
Tensor stddev(const Tensor& x, const Ints& axes = {}, bool keepdims = false, int ddof = 0);
// bool: whether some element is true, which every number but 0 is; of none, false.
Tensor any(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
// bool: whether every element is true; of none, true.
Tensor all(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
// ord 1 or 2.
Tensor norm(const Tensor& x, int ord = 2, const Ints& axes = {}, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const Ints& axes = {}, bool keepdims = false);
// int64 positions; the first of equals.
Tensor argmax(const Tensor& x, int axis = -1, bool keepdims = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keepdims = false);
Tensor cumsum(const Tensor& x, int axis = -1, bool reverse = false);
Tensor cumprod(const Tensor& x, int axis = -1, bool reverse = false);
// y[t] = a[t] * y[t - 1] + b[t] along an axis, beginning with y[0] = b[0].
Tensor linear_scan(const Tensor& a, const Tensor& b, int axis = -1, bool reverse = false);

}  // namespace lockstep
