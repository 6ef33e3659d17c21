// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lockstep::kernels {

// A matrix in memory; strides count elements.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;

  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
  T at(std::int64_t i, std::int64_t j) const { return data[i * row_stride + j * column_stride]; }
};

template <class T>
Matrix<T> dense_matrix(const T* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns, columns, 1};
}

// c = a b, with c dense and row major. float32 runs at the machine's rate (oneDNN), on one thread.
void gemm(const Matrix<float>& a, const Matrix<float>& b, float* c);

// c = a^T b, or that added to c, for dense a [rows, m] and b [rows, n]. Meant for one slab of rows
// after the other: a is read across its rows, and what was read of a slab stays in the cache.
inline constexpr std::int64_t kSlabRows = 192;
void gemm_slab(const Matrix<float>& a, const Matrix<float>& b, bool add, float* c);

template <class T>
Matrix<T> row_major(const Matrix<T>& m, std::vector<T>& storage) {
  if (m.column_stride == 1 || m.columns <= 1) return m;
  storage.resize(static_cast<std::size_t>(m.rows * m.columns));
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.columns; ++j)
      storage[static_cast<std::size_t>(i * m.columns + j)] = m.at(i, j);
  return dense_matrix<T>(storage.data(), m.rows, m.columns);
}

// The same for any number type. The innermost loop runs along rows of b and c, and a tile of b
// stays in the cache while rows of a go by. Sums are in order of k. Integers wrap.
template <class T>
void gemm(const Matrix<T>& a, const Matrix<T>& given_b, T* c) {
  constexpr std::int64_t kDepth = 128;
  constexpr std::int64_t kWidth = 256;
  using W = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  std::vector<T> packed;
  const Matrix<T> b = row_major(given_b, packed);
  const std::int64_t n = b.columns;
  std::fill_n(c, a.rows * n, T(0));
  for (std::int64_t k0 = 0; k0 < a.columns; k0 += kDepth)
    for (std::int64_t j0 = 0; j0 < n; j0 += kWidth) {
      const std::int64_t k1 = std::min(k0 + kDepth, a.columns);
      const std::int64_t width = std::min(kWidth, n - j0);
      for (std::int64_t i = 0; i < a.rows; ++i)
        for (std::int64_t k = k0; k < k1; ++k) {
          const auto scale = static_cast<W>(a.at(i, k));
          const T* source = b.data + k * b.row_stride + j0;
          T* target = c + i * n + j0;
          for (std::int64_t j = 0; j < width; ++j)
            target[j] =
                static_cast<T>(static_cast<W>(target[j]) + scale * static_cast<W>(source[j]));
        }
    }
}

}  // namespace lockstep::kernels
