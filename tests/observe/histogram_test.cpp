// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::observe {
namespace {

double total(const Histogram& histogram) {
  double sum = 0;
  for (const Histogram::Bucket& bucket : histogram.buckets()) sum += bucket.count;
  return sum;
}

// The limits are 1e-12, 1.1e-12, 1.21e-12, ...: found here by walking, not by searching.
TEST(Histogram, AValueFallsBetweenTheLimitsAroundIt) {
  for (const double value : {1e-13, 1e-12, 3.7e-5, 0.02, 1.0, 777.0, 3e19}) {
    Histogram histogram;
    histogram.add(value);
    double limit = 1e-12;
    while (limit <= value) limit *= 1.1;
    ASSERT_EQ(histogram.buckets().size(), 2u);
    EXPECT_EQ(histogram.buckets()[1].limit, limit);
    EXPECT_EQ(histogram.buckets()[1].count, 1);
    EXPECT_LE(histogram.buckets()[0].limit, value);
    EXPECT_EQ(histogram.buckets()[0].count, 0);
  }
}

TEST(Histogram, NegativeValuesMirrorPositiveOnes) {
  Histogram histogram;
  histogram.add(-1.0);
  const auto buckets = histogram.buckets();
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_NEAR(buckets[1].limit / buckets[0].limit, 1 / 1.1, 1e-12);
  EXPECT_LE(buckets[0].limit, -1.0);
  EXPECT_GT(buckets[1].limit, -1.0);
}

TEST(Histogram, EveryFiniteValueIsCountedAndNoOther) {
  Histogram histogram;
  const double largest = std::numeric_limits<double>::max();
  for (const double value : {0.0, -0.0, largest, -largest, 1e30, -1e30, 5e-324})
    histogram.add(value);
  for (const double value : {NAN, INFINITY, -INFINITY}) histogram.add(value);
  EXPECT_EQ(histogram.count(), 7);
  EXPECT_EQ(total(histogram), 7);
  EXPECT_EQ(histogram.min(), -largest);
  EXPECT_EQ(histogram.max(), largest);
}

TEST(Histogram, LimitsGrow) {
  Histogram histogram;
  for (int i = -1000; i < 1000; ++i) histogram.add(std::sinh(i * 0.02));
  const auto buckets = histogram.buckets();
  for (std::size_t i = 1; i < buckets.size(); ++i)
    EXPECT_LT(buckets[i - 1].limit, buckets[i].limit);
  EXPECT_EQ(total(histogram), 2000);
}

TEST(Histogram, OfNothingIsOneEmptyBucket) {
  const Histogram histogram;
  ASSERT_EQ(histogram.buckets().size(), 1u);
  EXPECT_EQ(histogram.buckets()[0].count, 0);
}

}  // namespace
}  // namespace lockstep::observe
