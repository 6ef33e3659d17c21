// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::io {

enum class Storage { dense, row_sparse, csr };

// "default", "row_sparse", "csr": MXNet's names.
std::string_view name_of(Storage storage);

// An array as a file of MXNet's has it: all of its elements, or those that are stored and where
// they belong.
struct StoredArray {
  Storage storage = Storage::dense;
  Shape shape;
  Tensor data;
  std::vector<Tensor> indices;  // row_sparse: the rows; csr: where rows begin, and the columns
};

using NamedArray = std::pair<std::string, StoredArray>;

// Of a tensor, all of it.
StoredArray stored(Tensor tensor);
// Throws InvalidArgument that begins with `what` when the parts do not fit together, an index is
// outside, or the tensor would have more than `limit` bytes.
Tensor to_dense(const StoredArray& array, const std::string& what, std::uint64_t limit);
void check(const StoredArray& array, const std::string& what);

}  // namespace lockstep::io
