// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/packed_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/ops/elementwise.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using kernels::PackedMatrix;

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  return cast(random_tensor({count}, seed), DType::float32).to_vector<float>();
}

// Rows of `width` elements in one buffer, the last first: a product takes them as they come.
template <class T>
std::vector<T*> rows_of(T* data, std::int64_t rows, std::int64_t width) {
  std::vector<T*> result;
  for (std::int64_t i = rows; i > 0; --i) result.push_back(data + (i - 1) * width);
  return result;
}

struct Matrix {
  Matrix(std::int64_t depth, std::int64_t columns, bool transposed)
      : source(numbers(depth * columns + 1, 2)),
        buffer(static_cast<std::size_t>(kernels::packed_floats(depth, columns))),
        packed(kernels::pack_matrix({source.data(), transposed ? depth : columns}, depth, columns,
                                    transposed, buffer.data())) {}
  std::vector<float> source, buffer;
  PackedMatrix packed;
};

void run(const std::vector<const float*>& from, const Matrix& matrix, const std::vector<float*>& to,
         bool add) {
  std::vector<float> scratch(static_cast<std::size_t>(kernels::product_scratch_floats(
      static_cast<std::int64_t>(from.size()), matrix.packed.depth)));
  kernels::packed_product(from, matrix.packed, to, add, scratch.data());
}

// Rows of the result have three columns more than the product, which must stay as they are.
void expect_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool transposed,
                    bool add) {
  const Matrix matrix(depth, columns, transposed);
  const auto a = numbers(rows * depth + 1, 1), before = numbers(rows * (columns + 3), 3);
  std::vector<float> c = before;
  run(rows_of(a.data(), rows, depth), matrix, rows_of(c.data(), rows, columns + 3), add);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns + 3; ++j) {
      const auto index = static_cast<std::size_t>(i * (columns + 3) + j);
      double want = add || j >= columns ? double(before[index]) : 0.0;
      for (std::int64_t k = 0; k < depth && j < columns; ++k)
        want += double(a[static_cast<std::size_t>(i * depth + k)]) *
                double(matrix.source[static_cast<std::size_t>(transposed ? j * depth + k
                                                                         : k * columns + j)]);
      ASSERT_NEAR(c[index], want, 3e-5) << rows << " x " << columns << ", depth " << depth;
    }
}

TEST(PackedProduct, EqualsTheSumsForEverySizeOfTheLastTile) {
  for (const std::int64_t rows : {0, 1, 2, 5, 6, 7, 11, 12, 13, 25, 97})
    for (const std::int64_t columns : {0, 1, 15, 16, 17, 32, 33, 70})
      for (const std::int64_t depth : {0, 1, 5, 32})
        for (const bool transposed : {false, true})
          expect_product(rows, columns, depth, transposed, (rows + columns) % 2 == 0);
}

TEST(PackedProduct, EqualsTheSumsWhenTheDepthIsCut) {
  for (const bool add : {false, true}) expect_product(30, 40, 601, true, add);
}

TEST(PackedProduct, ARowHasTheSameBitsWhateverStandsBesideIt) {
  constexpr std::int64_t kRows = 110, kColumns = 37, kDepth = 300;
  const Matrix matrix(kDepth, kColumns, false);
  const auto a = numbers(kRows * kDepth, 1);
  std::vector<float> all(kRows * kColumns), some(kRows * kColumns);
  const auto from = rows_of(a.data(), kRows, kDepth);
  const auto to = rows_of(some.data(), kRows, kColumns);
  run(from, matrix, rows_of(all.data(), kRows, kColumns), false);
  for (const std::size_t count : {1, 3, 8, 13, 40}) {
    for (std::size_t i = 0; i < kRows; i += count) {
      const auto last = static_cast<std::ptrdiff_t>(std::min<std::size_t>(i + count, kRows));
      const auto first = static_cast<std::ptrdiff_t>(i);
      run({from.begin() + first, from.begin() + last}, matrix,
          {to.begin() + first, to.begin() + last}, false);
    }
    EXPECT_EQ(some, all) << count << " at once";
    std::fill(some.begin(), some.end(), 0.0f);
  }
}

TEST(PackedProduct, ANanStaysInItsRow) {
  const Matrix matrix(20, 35, false);
  auto a = numbers(5 * 20, 1);
  a[2 * 20 + 7] = NAN;
  std::vector<float> c(5 * 35);
  run(rows_of<const float>(a.data(), 5, 20), matrix, rows_of(c.data(), 5, 35), false);
  for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(std::isnan(c[i]), i / 35 == 2) << i;
}

}  // namespace
}  // namespace lockstep::testing
