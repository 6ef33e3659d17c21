// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/element_numbers.h"

#include <gtest/gtest.h>

namespace lockstep::train::detail {
namespace {

constexpr std::int64_t kExact = std::int64_t{1} << 24;

TEST(ElementNumbers, AreExactAndNeverZero) {
  EXPECT_EQ(number_parts(kExact - 1), 1);
  const Tensor numbers = element_numbers({2, 3}, 0);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(numbers.data<float>()[i], static_cast<float>(i + 1));
}

TEST(ElementNumbers, TellNeighboursApartBeyondWhatAFloatCounts) {
  const Shape shape{kExact + 8};
  ASSERT_EQ(number_parts(shape.numel()), 2);
  const Tensor low = element_numbers(shape, 0), high = element_numbers(shape, 1);
  for (std::int64_t i = kExact - 8; i < shape.numel(); ++i) {
    const double number = static_cast<double>(high.data<float>()[i]) * kExact +
                          static_cast<double>(low.data<float>()[i]);
    EXPECT_EQ(number, static_cast<double>(i + 1));
  }
}

}  // namespace
}  // namespace lockstep::train::detail
