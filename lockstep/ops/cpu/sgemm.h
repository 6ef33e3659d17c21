// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::kernels {

// A float32 matrix whose rows are dense, `stride` elements apart.
struct Rows {
  float* data;
  std::int64_t stride;
  float* row(std::int64_t i) const { return data + i * stride; }
  Rows from(std::int64_t i) const { return {row(i), stride}; }
};

// [m, n] = alpha [m, k] [k, n] + beta [m, n]; an operand marked 'T' is stored transposed.
struct Product {
  char transpose_a, transpose_b;
  std::int64_t m, n, k;
  float alpha = 1.0f, beta = 0.0f;
};

// On as many threads as the caller's OpenMP setting says (see OneThread).
void sgemm(const Product& product, Rows a, Rows b, Rows c);

}  // namespace lockstep::kernels
