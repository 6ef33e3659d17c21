// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {
namespace {

// Every value of a half, and its two neighbours among floats and the ties in between.
std::vector<float> floats_near(const auto& halves) {
  std::vector<float> values;
  for (const auto& half : halves) {
    const float x = half;
    for (float other : {std::nextafter(x, -INFINITY), x, std::nextafter(x, INFINITY)})
      values.push_back(other);
    values.push_back(x * (1.0f + 0x1p-12f));
    values.push_back(x * (1.0f + 0x1p-9f));
    values.push_back(x * 1.003f);
  }
  return values;
}

template <class Half>
std::vector<Half> all_halves() {
  std::vector<Half> halves(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  return halves;
}

template <class Half>
void expect_same_as_one_by_one() {
  const std::vector<Half> halves = all_halves<Half>();
  std::vector<float> wide(halves.size());
  convert_run(halves.data(), wide.data(), halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float want = halves[i];
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(wide[i])) << i;
    else
      EXPECT_EQ(std::memcmp(&wide[i], &want, sizeof(float)), 0) << i;
  }
  const std::vector<float> values = floats_near(halves);
  std::vector<Half> narrow(values.size());
  convert_run(values.data(), narrow.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]))
      EXPECT_TRUE(std::isnan(float(narrow[i]))) << i;
    else
      ASSERT_EQ(narrow[i].bits, Half(values[i]).bits) << values[i];
  }
}

TEST(Convert, Bfloat16RunsEqualSingleValues) { expect_same_as_one_by_one<BFloat16>(); }
TEST(Convert, Float16RunsEqualSingleValues) { expect_same_as_one_by_one<Float16>(); }

TEST(Convert, WhatAnIntegerCannotHoldBecomesItsNearestEnd) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor values = Tensor::from<double>({-inf, -1e19, -128.9, -1.5, 1.5, 255.9, 256, 1e19, inf,
                                              std::numeric_limits<double>::quiet_NaN()},
                                             {10});
  using Longs = std::vector<std::int64_t>;
  const auto as = [&](DType dtype) {
    const Tensor target = Tensor::empty({10}, dtype);
    target.assign(values);
    return target.to_vector<std::int64_t>();
  };
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(as(DType::uint8), (Longs{0, 0, 0, 0, 1, 255, 255, 255, 255, 0}));
  EXPECT_EQ(as(DType::int8), (Longs{-128, -128, -128, -1, 1, 127, 127, 127, 127, 0}));
  EXPECT_EQ(as(DType::int16), (Longs{-32768, -32768, -128, -1, 1, 255, 256, 32767, 32767, 0}));
  EXPECT_EQ(as(DType::int64), (Longs{least, least, -128, -1, 1, 255, 256, most, most, 0}));
  EXPECT_EQ(Tensor::full({1}, -1.0, DType::uint8).item(), 0.0);
}

TEST(Convert, EveryDtypeBecomesEveryOther) {
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      const auto source = static_cast<DType>(from), target = static_cast<DType>(to);
      const Tensor given = Tensor::empty({3}, source), result = Tensor::empty({3}, target);
      given.assign(Tensor::from<double>({0, 1, 100}, {3}));
      result.assign(given);
      const bool flags = source == DType::boolean || target == DType::boolean;
      EXPECT_EQ(result.to_vector<double>(), (std::vector<double>{0, 1, flags ? 1.0 : 100.0}))
          << name_of(source) << " to " << name_of(target);
    }
}

TEST(Convert, IntegersWrapInNarrowerOnes) {
  const Tensor wide = Tensor::from<std::int32_t>({32768, -32769, 65536 + 7}, {3});
  const Tensor narrow = Tensor::empty({3}, DType::int16);
  narrow.assign(wide);
  EXPECT_EQ(narrow.to_vector<int>(), (std::vector<int>{-32768, 32767, 7}));
}

TEST(Convert, ShortRunsTouchNothingBeyondTheirEnd) {
  for (std::size_t count = 0; count < 40; ++count) {
    const std::vector<float> source(count, 1.5f);
    std::vector<Float16> target(count + 1);
    convert_run(source.data(), target.data(), count);
    EXPECT_EQ(target[count].bits, 0);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(float(target[i]), 1.5f);
  }
}

}  // namespace
}  // namespace lockstep
