// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/cost_meter.h"

#include <gtest/gtest.h>

namespace lockstep::train::detail {
namespace {

const std::vector<double> kSeconds{0.5, 2.0, 1.0};

TEST(CostMeter, TheSlowestIsTheOneThatComputedLongest) {
  const StepCost cost = CostMeter(nullptr).finish(CostMeter::Clock::now(), kSeconds, 2);
  EXPECT_EQ(cost.slowest_rank, 1);
  EXPECT_EQ(cost.slowest_s, 2.0);
  EXPECT_EQ(cost.compute_s, 1.0);
  EXPECT_EQ(cost.bytes_sent, 0U);
}

TEST(CostMeter, WithoutAMeterAllTimeAfterThePassesIsWaiting) {
  const auto before = CostMeter::Clock::now() - std::chrono::seconds(3);
  EXPECT_GE(CostMeter(nullptr).finish(before, kSeconds, 0).wait_s, 3.0);
}

TEST(CostMeter, WaitsBeforeTheStepAndWhileItComputesDoNotCount) {
  comm::Meter meter;
  { const comm::Meter::Wait wait(&meter, "barrier"); }
  meter.add_sent(10);
  const auto before = CostMeter::Clock::now() - std::chrono::seconds(3);
  const CostMeter of_step(&meter);
  meter.add_sent(32);
  const StepCost cost = of_step.finish(before, kSeconds, 0);
  EXPECT_EQ(cost.wait_s, 0.0);
  EXPECT_EQ(cost.bytes_sent, 32U);
  const CostMeter next(&meter);
  { const comm::Meter::Wait wait(&meter, "tree_sum", 1); }
  const double waited = next.finish(before, kSeconds, 0).wait_s;
  EXPECT_GT(waited, 0.0);
  EXPECT_LT(waited, 3.0);
}

TEST(CostSum, TheSlowestOfARunWasSoMostOften) {
  CostSum sum;
  EXPECT_EQ(sum.total().steps, 0);
  for (const int rank : {1, 2, 2, 0}) sum.add({0.5, 0.25, 100, rank, 0.5});
  const RunCost total = sum.total();
  EXPECT_EQ(total.steps, 4);
  EXPECT_EQ(total.slowest_rank, 2);
  EXPECT_EQ(total.slowest_steps, 2);
  EXPECT_EQ(total.bytes_sent, 400U);
  EXPECT_DOUBLE_EQ(total.wait_s, 1.0);
}

}  // namespace
}  // namespace lockstep::train::detail
