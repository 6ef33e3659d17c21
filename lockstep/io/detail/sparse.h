// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/io/detail/stored_tensor.h"

namespace lockstep::io::detail {

// Dense tensors of sparse ones; what is not stored is 0. Throw Corrupt when shapes do not fit
// together or an index is outside. The caller has found `shape` small enough.

// `data` has the rows that `rows` numbers.
Tensor dense_of_rows(const Place& place, const Shape& shape, const Tensor& data,
                     const Tensor& rows);
// Of row i, data[starts[i]] to data[starts[i + 1]], which stand in these columns.
Tensor dense_of_csr(const Place& place, const Shape& shape, const Tensor& data,
                    const Tensor& starts, const Tensor& columns);

}  // namespace lockstep::io::detail
