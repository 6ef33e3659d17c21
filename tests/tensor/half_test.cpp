// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class Half>
Half from_bits(int bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

// The value of a pattern by its definition: 1 sign bit, `exponent_bits`, the rest fraction.
double defined_value(int bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  const int leading = exponent ? 1 << fraction_bits : 0;
  return sign * std::ldexp(leading + fraction, std::max(exponent, 1) - bias - fraction_bits);
}

template <class Half>
void expect_every_pattern(int exponent_bits) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = from_bits<Half>(bits);
    const float value = half;
    const double defined = defined_value(bits, exponent_bits);
    if (std::isnan(defined)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(float(Half(value)))) << bits;
      ASSERT_EQ(Half(value).bits & 0x8000, bits & 0x8000) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), defined) << bits;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
      ASSERT_EQ(Half(value).bits, bits);
    }
  }
}

// Between two neighbours the middle goes to the even one, and anything else to the nearer one.
template <class Half>
void expect_nearest_even(int largest_finite) {
  for (int bits = 0; bits < largest_finite; ++bits) {
    const float low = from_bits<Half>(bits);
    const float high = from_bits<Half>(bits + 1);
    const float middle = low + (high - low) / 2;
    const int even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(Half(middle).bits, even) << bits;
    ASSERT_EQ(Half(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(Half(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(Half(std::nextafter(middle, kInfinity)).bits, bits + 1);
  }
}

TEST(Float16, EveryPatternHasItsValueAndComesBack) { expect_every_pattern<Float16>(5); }

TEST(BFloat16, EveryPatternHasItsValueAndComesBack) { expect_every_pattern<BFloat16>(8); }

TEST(Float16, RoundsToNearestEvenBetweenAllNeighbours) { expect_nearest_even<Float16>(0x7bff); }

TEST(BFloat16, RoundsToNearestEvenBetweenAllNeighbours) { expect_nearest_even<BFloat16>(0x7f7f); }

TEST(Float16, BeyondTheLargestBecomesInfinity) {
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Float16(kInfinity).bits, 0x7c00);
}

TEST(Float16, BelowHalfTheSmallestBecomesZeroWithItsSign) {
  EXPECT_EQ(Float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(Float16(std::nextafter(0x1p-25f, 1.0f)).bits, 0x0001);
  EXPECT_EQ(Float16(-0x1p-26f).bits, 0x8000);
}

TEST(BFloat16, BeyondTheLargestBecomesInfinity) {
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-kInfinity).bits, 0xff80);
}

}  // namespace
}  // namespace lockstep
