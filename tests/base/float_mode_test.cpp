// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/float_mode.h"

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/base/thread_team.h"

namespace lockstep {
namespace {

// Computed when the program runs.
float half_of_the_smallest_normal() {
  volatile float smallest = 0x1p-126f;
  return smallest * 0.5f;
}

float twice_a_subnormal() {
  volatile float subnormal = 0x1p-127f;
  return subnormal * 2.0f;
}

// Compared outside: while subnormals are flushed they equal zero.
TEST(FloatMode, SubnormalsAreZeroWhileTheyAreFlushed) {
  EXPECT_EQ(half_of_the_smallest_normal(), 0x1p-127f);
  std::vector<float> flushed;
  {
    const FlushSubnormals flush;
    flushed = {half_of_the_smallest_normal(), twice_a_subnormal()};
  }
  EXPECT_EQ(flushed, std::vector<float>(2, 0.0f));
  EXPECT_EQ(half_of_the_smallest_normal(), 0x1p-127f);
  EXPECT_EQ(twice_a_subnormal(), 0x1p-126f);
}

TEST(FloatMode, ATeamComputesAsItsCallerDoes) {
  ThreadTeam team(3);
  std::vector<float> results(3);
  const auto compute = [&](int thread) {
    results[static_cast<std::size_t>(thread)] = half_of_the_smallest_normal();
  };
  team.run(compute);
  EXPECT_EQ(results, std::vector<float>(3, 0x1p-127f));
  {
    const FlushSubnormals flush;
    team.run(compute);
  }
  EXPECT_EQ(results, std::vector<float>(3, 0.0f));
}

}  // namespace
}  // namespace lockstep
