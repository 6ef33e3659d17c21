// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/membership.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep {
namespace {

const Membership kMembers{4, {{3, "a"}, {8, "b", Role::server}, {5, "c"}, {9, "d", Role::server}}};

TEST(Membership, CountsRanksAmongThoseOfARole) {
  EXPECT_EQ(kMembers.rank_of(3), 0);
  EXPECT_EQ(kMembers.rank_of(5), 1);
  EXPECT_EQ(kMembers.rank_of(8), 0);
  EXPECT_EQ(kMembers.rank_of(9), 1);
  EXPECT_EQ(kMembers.hosts_of(Role::worker), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(kMembers.hosts_of(Role::server), (std::vector<std::string>{"b", "d"}));
}

TEST(Membership, NamesAMemberThatItDoesNotHave) {
  EXPECT_EQ(testing::message_of<NotFound>([] { kMembers.rank_of(7); }),
            "membership: generation 4 has no member 7");
}

TEST(Membership, DealsToWorkersAlone) {
  const std::vector<ShardRange> ranges = kMembers.deal(4);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0].lo, 0);
  EXPECT_EQ(ranges[0].hi, ranges[1].lo);
  EXPECT_EQ(ranges[1].hi, 4);
}

}  // namespace
}  // namespace lockstep
