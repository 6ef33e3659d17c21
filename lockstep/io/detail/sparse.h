// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/io/detail/stored_tensor.h"
#include "lockstep/io/stored_array.h"

namespace lockstep::io::detail {

// Throws Corrupt when shapes do not fit together or an index is outside. Nothing is to be said of a
// dense array.
void check_sparse(const Place& place, const StoredArray& array);
// The dense tensor of an array that check_sparse() has seen; what is not stored is 0. Its bytes are
// taken from `left`, and Corrupt is thrown where they are too many.
Tensor dense_of(const Place& place, const StoredArray& array, std::uint64_t& left);

}  // namespace lockstep::io::detail
