// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Stable; NaN is above every number: last, or first where descending, as argmax finds it.
Tensor sort(const Tensor& x, int axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);  // int64
// Largest k (or smallest), in order: values and int64 positions.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis = -1, bool largest = true);
// The element in the middle along the axis, the lower of two: values and int64 positions. A line
// with a NaN has the first one.
std::pair<Tensor, Tensor> median(const Tensor& x, int axis = -1, bool keepdims = false);

}  // namespace lockstep
