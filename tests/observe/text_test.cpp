// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::observe {
namespace {

TEST(Text, CountsHaveTheirThousandsSetApart) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
}

TEST(Text, OneThingIsNotSeveral) {
  EXPECT_EQ(format_things(1, "thread"), "1 thread");
  EXPECT_EQ(format_things(0, "thread"), "0 threads");
  EXPECT_EQ(format_things(1200, "step"), "1,200 steps");
}

TEST(Text, RatesHaveADecimalWhereTheyAreSmall) {
  EXPECT_EQ(format_rate(5741.3), "5,741");
  EXPECT_EQ(format_rate(3.44), "3.4");
  EXPECT_EQ(format_rate(9.96), "10");
  EXPECT_EQ(format_rate(INFINITY), "inf");
}

TEST(Text, DurationsAreMinutesAndHours) {
  EXPECT_EQ(format_duration(21.4), "0:21");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(3725), "1:02:05");
  EXPECT_EQ(format_duration(NAN), "?");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(1e300), "?");
}

TEST(Text, BytesAreInPowersOfAThousand) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(812), "812 B");
  EXPECT_EQ(format_bytes(999.9), "1.0 kB");
  EXPECT_EQ(format_bytes(11594722), "11.6 MB");
  EXPECT_EQ(format_bytes(170498071), "170 MB");
  EXPECT_EQ(format_bytes(5e15), "5000 TB");
}

TEST(Text, ValuesHaveAboutFourDigits) {
  EXPECT_EQ(format_value(0.04123), "0.0412");
  EXPECT_EQ(format_value(2.302585), "2.303");
  EXPECT_EQ(format_value(-123.46), "-123.5");
  EXPECT_EQ(format_value(5741.3), "5,741");
  EXPECT_EQ(format_value(3.1e-5), "3.10e-05");
  EXPECT_EQ(format_value(1.5e7), "1.50e+07");
  EXPECT_EQ(format_value(0), "0");
  EXPECT_EQ(format_value(NAN), "nan");
}

TEST(Text, WidthIsCountedInCodePoints) {
  EXPECT_EQ(display_width("naïve"), 5u);
  EXPECT_EQ(fit_width("naïve", 5), "naïve");
  EXPECT_EQ(fit_width("naïve", 4), "naï~");
  EXPECT_EQ(fit_width("naïve", 1), "~");
  EXPECT_EQ(fit_width("naïve", 0), "");
}

}  // namespace
}  // namespace lockstep::observe
