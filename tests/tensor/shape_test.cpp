// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/shape.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

TEST(Shape, BroadcastsAsNumPyDoes) {
  EXPECT_EQ(broadcast_shapes("add", {2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes("add", {0, 4}, {1}), (Shape{0, 4}));
  EXPECT_EQ(broadcast_shapes("add", {}, {}), (Shape{}));
}

TEST(Shape, RefusesShapesThatDoNotBroadcast) {
  try {
    broadcast_shapes("add", {2, 3}, {4});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "add: shapes [2, 3] and [4] do not broadcast");
  }
}

}  // namespace
}  // namespace lockstep
