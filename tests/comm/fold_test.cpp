// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/fold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/base/shard_tree.h"
#include "lockstep/tensor/half.h"

namespace lockstep::comm {
namespace {

template <class T>
const std::byte* bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

template <class T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// Every 16-bit pattern on the left against some on the right.
template <class Half>
void check_sums(Element element) {
  for (const std::uint16_t right :
       {0x0000, 0x0001, 0x03ff, 0x3c00, 0x7bff, 0x8001, 0x4248, 0x7c00}) {
    std::vector<std::uint16_t> a(65536), b(65536, right), sum(65536);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint16_t>(i);
    combine(element, Reduction::sum, bytes(a), bytes(b), bytes(sum), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      Half x, y;
      x.bits = a[i];
      y.bits = right;
      const Half expected(static_cast<float>(x) + static_cast<float>(y));
      if (std::isnan(static_cast<float>(expected))) {
        Half got;
        got.bits = sum[i];
        ASSERT_TRUE(std::isnan(static_cast<float>(got))) << i;
      } else {
        ASSERT_EQ(sum[i], expected.bits) << i << " + " << right;
      }
    }
  }
}

TEST(Fold, HalfPrecisionSumsAreThoseOfFloatRoundedToNearestEven) {
  check_sums<Float16>(Element::float16);
  check_sums<BFloat16>(Element::bfloat16);
}

TEST(Fold, ANanStaysOneInMinimaAndMaxima) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a{nan, 1, 2}, b{1, nan, 3};
  std::vector<float> result(3);
  combine(Element::float32, Reduction::minimum, bytes(a), bytes(b), bytes(result), 3);
  EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
  EXPECT_EQ(result[2], 2);
  combine(Element::float32, Reduction::maximum, bytes(a), bytes(b), bytes(result), 3);
  EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1]));
  EXPECT_EQ(result[2], 3);
}

TEST(Fold, SumsOfIntegersWrap) {
  const std::vector<std::uint8_t> a{250}, b{10};
  std::vector<std::uint8_t> result(1);
  combine(Element::uint8, Reduction::sum, bytes(a), bytes(b), bytes(result), 1);
  EXPECT_EQ(result[0], 4);
}

TEST(Fold, ACombinationGoesToItsCopyTooWhichMayBeASource) {
  std::vector<float> a(1001), b(1001);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  combine(Element::float32, Reduction::sum, bytes(a), bytes(b), bytes(a), a.size(), bytes(b));
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], static_cast<float>(3 * i));
  EXPECT_EQ(a, b);
}

TEST(Fold, EveryCopyGetsWhatTheTargetGets) {
  for (const std::size_t count : {1, 2047, 5000})
    for (const std::vector<int>& program : {std::vector<int>{0}, std::vector<int>{0, 1, kAdd},
                                            std::vector<int>{0, 1, 2, kAdd, kAdd}}) {
      std::vector<std::vector<float>> values(3, std::vector<float>(count));
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t k = 0; k < 3; ++k) values[k][i] = static_cast<float>(i * (k + 1));
      const std::byte* const sources[] = {bytes(values[0]), bytes(values[1]), bytes(values[2])};
      std::vector<float> plain(count), target(count), first(count), second(count);
      Fold fold(program, Element::float32, Reduction::sum);
      fold.run(sources, bytes(plain), count);
      std::byte* const copies[] = {bytes(first), bytes(second)};
      fold.run(sources, bytes(target), count, copies);
      EXPECT_EQ(target, plain);
      EXPECT_EQ(first, plain);
      EXPECT_EQ(second, plain);
    }
}

TEST(Fold, TheTargetMayBeAnyOfTheSources) {
  const std::size_t count = 5000;
  for (std::int64_t leaves = 1; leaves <= 6; ++leaves)
    for (std::int64_t target = 0; target < leaves; ++target) {
      std::vector<std::vector<float>> data;
      for (std::int64_t i = 0; i < leaves; ++i)
        data.emplace_back(count, static_cast<float>(1 << i));
      std::vector<const std::byte*> sources;
      for (const auto& values : data) sources.push_back(bytes(values));
      std::vector<ShardRange> nodes = deal_shards(leaves, leaves);
      Fold fold(plan_rest(leaves, nodes), Element::float32, Reduction::sum);
      auto& to = data[static_cast<std::size_t>(target)];
      fold.run(sources, bytes(to), count);
      EXPECT_EQ(to, std::vector<float>(count, static_cast<float>((1 << leaves) - 1)));
    }
}

}  // namespace
}  // namespace lockstep::comm
