// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/create.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Create, LikeTakesShapeDtypeAndDevice) {
  const Tensor x = full({2, 3}, 7, DType::int32, cpu(1));
  EXPECT_EQ(zeros_like(x).info(), x.info());
  EXPECT_EQ(ones_like(x).to_vector<int>(), (std::vector<int>(6, 1)));
}

TEST(Create, LinspaceEndsExactlyAtItsEnd) {
  EXPECT_EQ(linspace(0, 0.7, 8, DType::float64).to_vector<double>().back(), 0.7);
}

TEST(Create, ValuesThatDoNotFitAreRefused) {
  EXPECT_EQ(message_of([] { full({2}, 300, DType::int8); }), "full: 300 does not fit int8");
  EXPECT_EQ(message_of([] { full({2}, -1, DType::uint8); }), "full: -1 does not fit uint8");
  EXPECT_EQ(message_of([] { full({}, std::numeric_limits<double>::quiet_NaN(), DType::int64); }),
            "full: nan does not fit int64");
  EXPECT_EQ(message_of([] { arange(0, 300, 1, DType::uint8); }), "arange: 299 does not fit uint8");
  EXPECT_EQ(message_of([] { linspace(0, 128, 2, DType::int8); }),
            "linspace: 128 does not fit int8");
  EXPECT_EQ(full({}, 255, DType::uint8).item(), 255.0);
}

TEST(Create, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(message_of([] { full({2, -1}, 0); }), "full: shape [2, -1] has a negative size");
  EXPECT_EQ(message_of([] { arange(0, 1, 0); }), "arange: from 0 to 1 by 0 is not a finite range");
  EXPECT_EQ(message_of([] { arange(0, 1, std::numeric_limits<double>::infinity()); }),
            "arange: from 0 to 1 by inf is not a finite range");
  EXPECT_EQ(message_of([] { linspace(0, 1, -2); }), "linspace: count is -2, expected 0 or more");
  EXPECT_EQ(message_of([] { eye(-1); }), "eye: rows is -1, expected 0 or more");
}

}  // namespace
}  // namespace lockstep
