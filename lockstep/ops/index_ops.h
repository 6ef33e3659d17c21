// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Indices are int32 or int64. An index out of range is an InvalidArgument that names it; negative
// indices count from the end in take, gather and pick.

// Rows of `table` [V, D]: indices' shape + [D].
Tensor embedding(const Tensor& indices, const Tensor& table);
Tensor take(const Tensor& x, const Tensor& indices, int axis = 0);
// out[i][j] = x[index[i][j]][j] for axis 0: torch.gather's meaning.
Tensor gather(const Tensor& x, const Tensor& index, int axis);
// One element of each row along `axis`; index has x's shape without that axis.
Tensor pick(const Tensor& x, const Tensor& index, int axis = -1);
// x with `updates` added at `index` along `axis`; index and updates have one shape.
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& updates, int axis);
// x with `updates` written at `index` along `axis`. Where an element is named twice the last value
// stays, and has all of the gradient.
Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& updates, int axis);
Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype = DType::float32);

}  // namespace lockstep
