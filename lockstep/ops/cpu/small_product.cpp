// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/small_product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/small_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/rows-inl.h"
#include "lockstep/ops/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sums of a tile stay in registers: 16 of 32 with AVX-512, 8 of 16 without.
constexpr int kMostRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

// kRows rows of kVectors vectors; of the last vector, `last` lanes when kPart.
template <int kRows, int kVectors, bool kPart>
HWY_INLINE void Tile(const SmallProduct& p, std::int64_t i, std::int64_t j, std::size_t last) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT a = p.a + i * p.a_row;
  const float* HWY_RESTRICT b = p.b + j;
  V sums[kRows][kVectors];
  for (auto& row : sums)
    for (V& sum : row) sum = hn::Zero(d);
  for (std::int64_t k = 0; k < p.depth; ++k, a += p.a_step, b += p.b_step) {
    V right[kVectors];
    for (int v = 0; v < kVectors; ++v)
      right[v] = kPart ? load_part(d, b, last) : hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const V left = hn::Set(d, a[r * p.a_row]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(left, right[v], sums[r][v]);
    }
  }
  const V factor = hn::Set(d, p.factor);
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      float* c = p.c + (i + r) * p.c_row + j + v * lanes;
      V result = hn::Mul(sums[r][v], factor);
      if (p.add) result = hn::Add(result, kPart ? load_part(d, c, last) : hn::LoadU(d, c));
      if (kPart)
        store_part(d, result, c, last);
      else
        hn::StoreU(result, d, c);
    }
}

template <int kRows>
HWY_INLINE void RowStrip(const SmallProduct& p, std::int64_t i) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t j = 0;
  for (; j + 2 * lanes <= p.columns; j += 2 * lanes) Tile<kRows, 2, false>(p, i, j, 0);
  for (; j + lanes <= p.columns; j += lanes) Tile<kRows, 1, false>(p, i, j, 0);
  if (j < p.columns) Tile<kRows, 1, true>(p, i, j, static_cast<std::size_t>(p.columns - j));
}

void SmallProductImpl(const SmallProduct& p) {
  std::int64_t i = 0;
  for (; i + kMostRows <= p.rows; i += kMostRows) RowStrip<kMostRows>(p, i);
  for (; i + 2 <= p.rows; i += 2) RowStrip<2>(p, i);
  if (i < p.rows) RowStrip<1>(p, i);
}

void TransposeRowsImpl(const float* x, std::int64_t x_row, std::int64_t rows, std::int64_t columns,
                       float* y, std::int64_t y_row) {
  const std::int64_t whole_rows = rows / kTransposed * kTransposed;
  const std::int64_t whole_columns = columns / kTransposed * kTransposed;
  for (std::int64_t i = 0; i < whole_rows; i += kTransposed) {
    for (std::int64_t j = 0; j < whole_columns; j += kTransposed)
      transpose_block([&](std::int64_t r) { return x + (i + r) * x_row + j; }, y + j * y_row + i,
                      y_row);
    for (std::int64_t j = whole_columns; j < columns; ++j)
      for (std::int64_t r = i; r < i + kTransposed; ++r) y[j * y_row + r] = x[r * x_row + j];
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = whole_rows; i < rows; ++i) y[j * y_row + i] = x[i * x_row + j];
    std::fill(y + j * y_row + rows, y + (j + 1) * y_row, 0.0f);
  }
}

void CopyRowsImpl(const float* x, std::int64_t x_row, std::int64_t rows, std::int64_t columns,
                  float* y) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < rows; ++i, x += x_row, y += columns) {
    std::int64_t j = 0;
    for (; j + lanes <= columns; j += lanes) hn::StoreU(hn::LoadU(d, x + j), d, y + j);
    for (; j < columns; ++j) y[j] = x[j];
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(SmallProductImpl);
HWY_EXPORT(TransposeRowsImpl);
HWY_EXPORT(CopyRowsImpl);

void small_product(const SmallProduct& product) { HWY_DYNAMIC_DISPATCH(SmallProductImpl)(product); }

void transpose_rows(const float* x, std::int64_t x_row, std::int64_t rows, std::int64_t columns,
                    float* y, std::int64_t y_row) {
  HWY_DYNAMIC_DISPATCH(TransposeRowsImpl)(x, x_row, rows, columns, y, y_row);
}

void copy_rows(const float* x, std::int64_t x_row, std::int64_t rows, std::int64_t columns,
               float* y) {
  HWY_DYNAMIC_DISPATCH(CopyRowsImpl)(x, x_row, rows, columns, y);
}

}  // namespace lockstep::kernels
#endif
