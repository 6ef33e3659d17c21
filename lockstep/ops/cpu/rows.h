// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/tensor/half.h"

// Small loops over the rows of a dense matrix, float32 with SIMD.
namespace lockstep::kernels {

// y[i, j] += bias[j] where there is a bias; then relu where asked for, which leaves NaN as it is.
void finish_rows(float* y, const float* bias, std::int64_t rows, std::int64_t columns, bool relu);
void finish_rows(double* y, const double* bias, std::int64_t rows, std::int64_t columns, bool relu);

void relu_in_place(float* y, std::int64_t count);
void relu_in_place(BFloat16* y, std::int64_t count);

// total[j] = sum over i of x[i, j], in an order that depends on the shape alone.
void sum_rows(const float* x, std::int64_t rows, std::int64_t columns, float* total);
void sum_rows(const double* x, std::int64_t rows, std::int64_t columns, double* total);

// The same added to total, kRowGroup rows at a time: whoever splits x there gets the same bits.
inline constexpr std::int64_t kRowGroup = 32;
void add_rows(const float* x, std::int64_t rows, std::int64_t columns, float* total);

}  // namespace lockstep::kernels
