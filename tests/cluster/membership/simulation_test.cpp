// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/membership/simulation.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace lockstep::cluster {
namespace {

// LOCKSTEP_SEED=n: this schedule alone, with its story. LOCKSTEP_SCHEDULES=n: so many.
TEST(MembershipSimulation, EveryScheduleEndsWithTheStateOfTheUndisturbedJob) {
  const char* wanted = std::getenv("LOCKSTEP_SEED");
  const std::uint64_t first = wanted == nullptr ? 1 : std::stoull(wanted);
  const char* many = std::getenv("LOCKSTEP_SCHEDULES");
  const std::uint64_t count = many == nullptr ? 5'000 : std::stoull(many);
  const std::uint64_t last = wanted == nullptr ? count : first;
  std::int64_t generations = 0, faults = 0, lost = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const SimulationResult result = simulate({.seed = seed});
    ASSERT_EQ(result.wrong, "") << "LOCKSTEP_SEED=" << seed << "\n" << result.story;
    generations += result.generations;
    faults += result.faults;
    lost += result.is_lost ? 1 : 0;
    if (wanted != nullptr) std::puts(result.story.c_str());
  }
  if (wanted != nullptr) return;
  const auto schedules = static_cast<std::int64_t>(count);
  EXPECT_GT(generations, 2 * schedules);
  EXPECT_GT(faults, 2 * schedules);
  EXPECT_LT(lost, schedules / 5);
}

TEST(MembershipSimulation, ASeedAlwaysTellsTheSameStory) {
  EXPECT_EQ(simulate({.seed = 7}).story, simulate({.seed = 7}).story);
}

class PlantedBugs : public testing::TestWithParam<PlantedBug> {};

TEST_P(PlantedBugs, AreFoundWithinAThousandSchedules) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 1'000 && found == 0; ++seed)
    found += simulate({.seed = seed, .bug = GetParam()}).wrong.empty() ? 0 : 1;
  EXPECT_GT(found, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, PlantedBugs,
                         testing::Values(PlantedBug::skip_fencing, PlantedBug::deal_twice,
                                         PlantedBug::half_commit, PlantedBug::half_transfer));

}  // namespace
}  // namespace lockstep::cluster
