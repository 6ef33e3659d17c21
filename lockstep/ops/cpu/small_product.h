// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::kernels {

// c[i, j] = factor * sum over k of a[i, k] b[k, j], or that added to c. Rows of b and c are dense;
// a lies as its two strides say. Made for operands that are in the first or second-level cache
// already: nothing is packed. Each sum runs in order of k, whatever the sizes.
struct SmallProduct {
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t a_row, a_step;  // from one i to the next, from one k to the next
  const float* b;
  std::int64_t b_step;
  float* c;
  std::int64_t c_row;
  float factor = 1.0f;
  bool add = false;
};

void small_product(const SmallProduct& product);

// y[j, i] = x[i, j] for i < rows and j < columns, and 0 for i from rows to y_row.
void transpose_rows(const float* x, std::int64_t x_row, std::int64_t rows, std::int64_t columns,
                    float* y, std::int64_t y_row);

// y[i, j] = x[i, j], densely.
void copy_rows(const float* x, std::int64_t x_row, std::int64_t rows, std::int64_t columns,
               float* y);

}  // namespace lockstep::kernels
