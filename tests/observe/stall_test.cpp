// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/stall.h"

#include <gtest/gtest.h>

namespace lockstep::observe {
namespace {

using std::chrono::seconds;

MemberStatus worker(int rank, int waits_for = -1, double waited = 0.0) {
  MemberStatus member{.id = 10 + rank, .rank = rank};
  if (waits_for >= 0) member.waiting = MemberStatus::Waiting{"tree_sum", waits_for, waited};
  return member;
}

TEST(Stall, WhoWaitsForNobodyAndHoldsUpTheOthersIsNamedWithTheOperation) {
  const std::vector<MemberStatus> members{worker(0, 1, 6), worker(1, 2, 6), worker(2)};
  const auto stall = find_stall(members, seconds(5));
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 2);
  EXPECT_EQ(stall->reason, "nothing has moved for 5.0 s: worker 11 waits for it in tree_sum");
}

TEST(Stall, NobodyIsBlamedBeforeTheTimeIsOver) {
  EXPECT_FALSE(find_stall(std::vector{worker(0, 1, 4.9), worker(1)}, seconds(5)));
  EXPECT_FALSE(find_stall(std::vector{worker(0), worker(1)}, seconds(5)));
}

TEST(Stall, OfThoseThatWaitForEachOtherOneIsFound) {
  const auto stall =
      find_stall(std::vector{worker(0, 1, 9), worker(1, 0, 9), worker(2, 1, 9)}, seconds(5));
  ASSERT_TRUE(stall);
  EXPECT_NE(stall->rank, 2);
}

TEST(Stall, WhoHasLeftAndServersDoNotCount) {
  std::vector<MemberStatus> members{worker(0, 1, 9), worker(1)};
  members[0].has_left = true;
  EXPECT_FALSE(find_stall(members, seconds(5)));
  members[0].has_left = false;
  members[0].role = "server";
  EXPECT_FALSE(find_stall(members, seconds(5)));
}

}  // namespace
}  // namespace lockstep::observe
