// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/meter.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(Meter, TellsForWhomIsWaited) {
  Meter meter;
  EXPECT_FALSE(meter.waiting());
  {
    Meter::Wait wait(&meter, "all_reduce", 2);
    ASSERT_TRUE(meter.waiting());
    EXPECT_EQ(meter.waiting()->operation, "all_reduce");
    EXPECT_EQ(meter.waiting()->rank, 2);
    wait.set_rank(3);
    EXPECT_EQ(meter.waiting()->rank, 3);
    EXPECT_GE(meter.waiting()->seconds, 0.0);
  }
  EXPECT_FALSE(meter.waiting());
  EXPECT_GT(meter.seconds_waited(), 0.0);
}

TEST(Meter, TheWaitThatBeganLastIsTold) {
  Meter meter;
  const Meter::Wait first(&meter, "barrier", 1);
  {
    const Meter::Wait second(&meter, "push at server 0");
    EXPECT_EQ(meter.waiting()->operation, "push at server 0");
    EXPECT_EQ(meter.waiting()->rank, -1);
  }
  EXPECT_FALSE(meter.waiting());
}

TEST(Meter, WithoutOneNothingHappens) {
  Meter::Wait wait(nullptr, "all_reduce", 2);
  wait.set_rank(1);
}

TEST(Meter, CountsBytes) {
  Meter meter;
  meter.add_sent(3);
  meter.add_sent(4);
  EXPECT_EQ(meter.bytes_sent(), 7U);
}

}  // namespace
}  // namespace lockstep::comm
