// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/detail/arena.h"

#include <gtest/gtest.h>

#include "tests/tensor/test_device.h"

namespace lockstep::detail {
namespace {

constexpr std::size_t kGigabyte = std::size_t{1} << 30;

TEST(Arena, GrowsWithRoomToSpare) {
  Arena arena({});
  arena.reserve(100000);
  const std::byte* first = arena.data();
  arena.reserve(100001);
  EXPECT_EQ(arena.growth(), 2U);
  arena.reserve(125000);
  EXPECT_EQ(arena.growth(), 2U);
  arena.reserve(125001);
  EXPECT_EQ(arena.growth(), 3U);
  EXPECT_NE(first, nullptr);
}

// The device has 16 GB, and never puts blocks of several sizes together.
TEST(Arena, TakesJustWhatIsNeededWhereThereIsNoRoomToSpare) {
  const auto device = testing::TestDevice::make();
  Arena arena(device->device());
  arena.reserve(15 * kGigabyte / 2);
  arena.reserve(31 * kGigabyte / 4);
  EXPECT_NE(arena.data(), nullptr);
  EXPECT_THROW(arena.reserve(9 * kGigabyte), OutOfMemory);
}

}  // namespace
}  // namespace lockstep::detail
