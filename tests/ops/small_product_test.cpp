// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/small_product.h"

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/ops/elementwise.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using kernels::SmallProduct;

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  return cast(random_tensor({count}, seed), DType::float32).to_vector<float>();
}

double at(const SmallProduct& p, std::int64_t i, std::int64_t j) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < p.depth; ++k)
    sum += double(p.a[i * p.a_row + k * p.a_step]) * double(p.b[k * p.b_step + j]);
  return sum * double(p.factor);
}

// c has three columns more than the product, which must stay as they are.
void expect_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool turned,
                    bool add) {
  const auto a = numbers(rows * depth + 1, 1), b = numbers(depth * columns + 1, 2);
  const auto before = numbers(rows * (columns + 3), 3);
  std::vector<float> c = before;
  const SmallProduct p{rows,
                       columns,
                       depth,
                       a.data(),
                       turned ? 1 : depth,
                       turned ? rows : 1,
                       b.data(),
                       columns,
                       c.data(),
                       columns + 3,
                       0.5f,
                       add};
  kernels::small_product(p);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns + 3; ++j) {
      const auto index = static_cast<std::size_t>(i * (columns + 3) + j);
      const double old = before[index];
      const double want = j >= columns ? old : at(p, i, j) + (add ? old : 0.0);
      ASSERT_NEAR(c[index], want, 1e-5) << rows << " x " << columns << ", depth " << depth;
    }
}

TEST(SmallProduct, EqualsTheSumsForEverySizeOfTheLastTile) {
  for (const std::int64_t rows : {1, 2, 3, 7, 8, 9, 15, 17})
    for (const std::int64_t columns : {1, 3, 15, 16, 17, 31, 32, 33, 50})
      for (const std::int64_t depth : {0, 1, 5, 32})
        for (const bool turned : {false, true})
          expect_product(rows, columns, depth, turned, (rows + columns) % 2 == 0);
}

TEST(SmallProduct, ARowHasTheSameBitsWhateverStandsBesideIt) {
  const auto a = numbers(19 * 40, 1), b = numbers(40 * 37, 2);
  std::vector<float> all(19 * 37), one(37);
  kernels::small_product({19, 37, 40, a.data(), 40, 1, b.data(), 37, all.data(), 37});
  for (std::size_t i = 0; i < 19; ++i) {
    kernels::small_product({1, 37, 40, a.data() + 40 * i, 40, 1, b.data(), 37, one.data(), 37});
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(37 * i);
    EXPECT_EQ(one, std::vector<float>(row, row + 37)) << i;
  }
}

TEST(SmallProduct, RowsAreTurnedWithZerosBehindThemAndCopiedDensely) {
  for (const std::int64_t rows : {0, 1, 4, 5, 11})
    for (const std::int64_t columns : {1, 3, 4, 9}) {
      const auto x = numbers(rows * 12 + 1, 4);
      std::vector<float> turned(static_cast<std::size_t>(columns * 16), -1.0f);
      std::vector<float> copied(static_cast<std::size_t>(rows * columns));
      kernels::transpose_rows(x.data(), 12, rows, columns, turned.data(), 16);
      kernels::copy_rows(x.data(), 12, rows, columns, copied.data());
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t i = 0; i < 16; ++i) {
          const float want = i < rows ? x[static_cast<std::size_t>(i * 12 + j)] : 0.0f;
          ASSERT_EQ(turned[static_cast<std::size_t>(j * 16 + i)], want);
          if (i < rows) {
            ASSERT_EQ(copied[static_cast<std::size_t>(i * columns + j)], want);
          }
        }
    }
}

}  // namespace
}  // namespace lockstep::testing
