// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/restarts.h"

#include <gtest/gtest.h>

#include "lockstep/cluster/launch/detail/survivors.h"

namespace lockstep::cluster::detail {
namespace {

using Time = Restarts::Time;

MemberEnd failed(std::int64_t id, const std::string& words, int status = 1) {
  MemberEnd end{.id = id, .rank = static_cast<int>(id), .status = status};
  end.last_lines =
      "[" + std::to_string(id) + "] something before\n[" + std::to_string(id) + "] " + words + "\n";
  return end;
}

MemberEnd killed(std::int64_t id) { return {.id = id, .signal = 9}; }

TEST(Restarts, PausesGrowWhileStartsFailAndAreShortAgainAfterOneThatJoined) {
  Restarts restarts(100);
  EXPECT_EQ(restarts.plan(0, Time(1000)), Time(1100));
  EXPECT_EQ(restarts.plan(0, Time(1000)), Time(1200));
  EXPECT_EQ(restarts.plan(0, Time(1000)), Time(1400));
  for (int i = 0; i < 20; ++i) restarts.plan(0, Time(0));
  EXPECT_EQ(restarts.plan(0, Time(0)), Restarts::kLongestPause);
  restarts.note_success();
  EXPECT_EQ(restarts.plan(0, Time(0)), Restarts::kFirstPause);
}

TEST(Restarts, AreAsManyAsAllowedAndDueWhenTheirPauseIsOver) {
  Restarts restarts(2);
  EXPECT_TRUE(restarts.plan(3, Time(0)));
  EXPECT_TRUE(restarts.plan(4, Time(0)));
  EXPECT_FALSE(restarts.plan(5, Time(0)));
  EXPECT_TRUE(restarts.take_due(Time(99)).empty());
  EXPECT_EQ(restarts.take_due(Time(100)), std::vector<std::size_t>{3});
  EXPECT_EQ(restarts.planned(), 1);
  EXPECT_EQ(restarts.take_due(Time(500)), std::vector<std::size_t>{4});
  EXPECT_EQ(restarts.planned(), 0);
}

TEST(Restarts, TheSameLastWordsOfTwoWorkersAreTheProgramsOwnError) {
  Restarts restarts(10);
  EXPECT_FALSE(restarts.is_program_error(failed(0, "lockstep: train: the loss is nan at step 6")));
  EXPECT_FALSE(restarts.is_program_error(failed(1, "lockstep: no space left")));
  EXPECT_TRUE(restarts.is_program_error(failed(2, "lockstep: train: the loss is nan at step 6")));
  EXPECT_TRUE(restarts.is_program_error(failed(3, "lockstep: --foo: unknown", 2)));
  EXPECT_FALSE(restarts.is_program_error(killed(4)));
  EXPECT_FALSE(restarts.is_program_error(killed(5)));
}

TEST(Survivors, SomeEndsTheJobCanDoWithout) {
  Survivors survivors(10);
  EXPECT_TRUE(survivors.can_do_without(killed(1), true));
  EXPECT_FALSE(survivors.can_do_without(killed(1), false));
  EXPECT_FALSE(survivors.can_do_without({.id = 2, .status = 143}, true));  // asked to stop
  survivors.add_late(7);
  EXPECT_TRUE(survivors.can_do_without(failed(7, "no data", 2), false));  // was no member yet
  MembershipEvent event;
  event.kind = "expelled";
  event.member = 3;
  EXPECT_TRUE(survivors.take(event));
  EXPECT_TRUE(survivors.can_do_without(failed(3, "not in the job any more"), true));
  event.member = 4;
  EXPECT_TRUE(survivors.take(event));
  EXPECT_TRUE(survivors.can_do_without(failed(4, "not in the job any more"), true));
  event.kind = "left";
  event.member = 5;
  EXPECT_FALSE(survivors.take(event));
  EXPECT_FALSE(survivors.wants_replacement({.id = 5}));
}

}  // namespace
}  // namespace lockstep::cluster::detail
