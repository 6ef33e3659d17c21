// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/ops/cpu/sgemm.h"

// Products of rows that lie anywhere with one matrix that many products share. Unlike sgemm's, an
// element's sum runs in order of the depth whatever the sizes, so that the bits of a row depend
// neither on how many rows stand beside it nor on which.
namespace lockstep::kernels {

// A [depth, columns] matrix in panels of columns, in the order in which a product reads it.
struct PackedMatrix {
  const float* data = nullptr;
  std::int64_t depth = 0, columns = 0;
};

// Floats that a packed matrix takes.
std::int64_t packed_floats(std::int64_t depth, std::int64_t columns);

// `source` is [depth, columns], or [columns, depth] when `transposed`.
PackedMatrix pack_matrix(Rows source, std::int64_t depth, std::int64_t columns, bool transposed,
                         float* target);

// Floats of scratch that a product of at most `rows` rows with a matrix of that depth takes.
std::int64_t product_scratch_floats(std::int64_t rows, std::int64_t depth);

// to[i] = from[i] matrix, or that added to to[i]. Runs on the calling thread.
void packed_product(std::span<const float* const> from, const PackedMatrix& matrix,
                    std::span<float* const> to, bool add, float* scratch);

}  // namespace lockstep::kernels
