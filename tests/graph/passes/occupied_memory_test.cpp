// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/occupied_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lockstep::passes {
namespace {

struct Placed {
  StepRange lifetime;
  std::size_t begin, end;
};

// By a look at every buffer that lives at the same time, from the lowest up.
std::size_t lowest_gap(std::vector<Placed> all, StepRange lifetime, std::size_t bytes) {
  std::sort(all.begin(), all.end(),
            [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  std::size_t offset = 0;
  for (const Placed& other : all) {
    if (other.lifetime.end <= lifetime.begin || lifetime.end <= other.lifetime.begin) continue;
    if (other.begin >= offset + bytes) break;
    offset = std::max(offset, other.end);
  }
  return offset;
}

TEST(OccupiedMemory, FindsTheGapThatALookAtEveryBufferFinds) {
  std::mt19937 random(11);
  for (const std::size_t steps : {1, 2, 7, 64, 100}) {
    OccupiedMemory memory(steps);
    std::vector<Placed> all;
    for (int i = 0; i < 200; ++i) {
      const std::size_t begin = random() % steps;
      const std::size_t length = random() % 3 == 0 ? random() % steps : random() % 3;
      const StepRange lifetime{begin, std::min(steps, begin + 1 + length)};
      const std::size_t bytes = 64 * (random() % 6);
      const std::size_t offset = memory.lowest_gap(lifetime, bytes);
      ASSERT_EQ(offset, lowest_gap(all, lifetime, bytes)) << steps << " steps, buffer " << i;
      memory.add(lifetime, offset, offset + bytes);
      all.push_back({lifetime, offset, offset + bytes});
    }
  }
}

TEST(ByteIntervals, PassOverNeighboursAsOne) {
  ByteIntervals intervals;
  intervals.add(64, 128);
  intervals.add(192, 256);
  EXPECT_EQ(intervals.first_gap(0, 64), 0U);
  EXPECT_EQ(intervals.first_gap(0, 65), 256U);
  EXPECT_EQ(intervals.first_gap(100, 64), 128U);
  intervals.add(128, 192);
  EXPECT_EQ(intervals.first_gap(64, 1), 256U);
}

}  // namespace
}  // namespace lockstep::passes
