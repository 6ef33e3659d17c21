// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// All limits, by walking; the last bucket takes what is beyond them.
std::vector<double> limits() {
  std::vector<double> all{0};
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) all.insert(all.end(), {limit, -limit});
  const double largest = std::numeric_limits<double>::max();
  all.insert(all.end(), {largest, -largest});
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Histogram, ValuesAtALimitAndBesideItAreInTheirBuckets) {
  const std::vector<double> all = limits();
  for (const double limit : all)
    for (const double value : {limit, std::nextafter(limit, -INFINITY),
                               std::nextafter(limit, INFINITY), limit * 1.03, limit * 1.07}) {
      if (!std::isfinite(value)) continue;
      Histogram histogram;
      histogram.add(value);
      const auto above = std::upper_bound(all.begin(), all.end() - 1, value);
      ASSERT_EQ(histogram.buckets().back().limit, *above) << value;
    }
}

TEST(Histogram, OfNothingIsOneEmptyBucket) {
  const Histogram histogram;
  ASSERT_EQ(histogram.buckets().size(), 1u);
  EXPECT_EQ(histogram.buckets()[0].count, 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
}

}  // namespace
}  // namespace lockstep::observe
