// SPDX-License-Identifier: Apache-2.0
#include "tests/message.h"

#include <gtest/gtest.h>

#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Message, TooManyDimensionsAreReportedByTheOp) {
  const Tensor x = ones(Shape::filled(kMaxRank, 1));
  const std::string rest = ": 9 dimensions, at most 8 are supported";
  EXPECT_EQ(message_of([&] { reshape(x, Ints(9, 1)); }), "reshape" + rest);
  EXPECT_EQ(message_of([&] { expand_dims(x, 0); }), "expand_dims" + rest);
  EXPECT_EQ(message_of([&] { stack({x, x}); }), "stack" + rest);
  EXPECT_EQ(message_of([&] { take(x, zeros({1, 1}, DType::int64), 0); }), "take" + rest);
  EXPECT_EQ(message_of([&] { index(x, {NewAxis{}}); }), "index" + rest);
}

TEST(Message, BeginsWithTheFunctionThatWasCalled) {
  const Tensor x = ones({2, 2});
  EXPECT_EQ(message_of([] { stack({}); }), "stack: takes at least 1 inputs, got 0");
  EXPECT_EQ(message_of([&] {
              stack({x, cast(x, DType::int32)});
            }),
            "stack: parts are float32 and int32");
  EXPECT_EQ(message_of([&] { global_avg_pool(x); }),
            "global_avg_pool: input has shape [2, 2], expected [N, C, spatial...] with 1 to 3 "
            "spatial axes");
  EXPECT_EQ(message_of([] {
              adaptive_avg_pool(ones({1, 1, 4}, DType::int32), {2});
            }),
            "adaptive_avg_pool: input is int32, expected a floating dtype");
  EXPECT_EQ(message_of([&] { index(x, {Tensor::full({1}, 2, DType::int64)}); }).substr(0, 7),
            "index: ");
}

TEST(Message, AnAllocationThatFailsNamesTheOp) {
  EXPECT_EQ(message_of<OutOfMemory>([] { zeros({1ll << 50}); }).substr(0, 44),
            "full: cannot allocate 4503599627370496 bytes");
}

}  // namespace
}  // namespace lockstep
