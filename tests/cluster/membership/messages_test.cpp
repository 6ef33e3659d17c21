// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/messages.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {
namespace {

std::vector<Message> one_of_each() {
  const Membership membership{3, {{7, "a", Role::worker}, {9, "b", Role::server}}};
  return {Noted{},
          Hello{4, "here"},
          Join{"1.0", "{}", Role::server, 2, 5, 3, "boot", true, true, true},
          Welcome{9, membership, {{1, 2, "lost", 3, "a", "why", 4, 5, 6, 7}}},
          Gather{std::chrono::milliseconds(77), std::string("a\0b", 3), 6},
          Gathered{{"x", "", "yz"}},
          MembershipQuery{},
          MembershipReply{membership, {9, 7}},
          AwaitLeave{},
          AllLeft{},
          Failure{Failure::Type::timeout, Role::server, 1, "b", "late"},
          Missed{8, "gone"},
          Put{"a/b", std::string("x\0", 2)},
          CompareAndSet{"view", 4, "bytes"},
          Get{"view", std::chrono::milliseconds(5), 3, 2},
          Entry{false, 7, "held"},
          Denied{Denied::Type::lost, Role::server, 1, "b", "gone"},
          AwaitChange{4},
          Change{true, "lost"},
          Report{3, true, false, 12, 1, "late"},
          Dismissed{false, "asked to"},
          Depart{2},
          Told{},
          Resize{5},
          WaitForNobody{},
          Expel{2, 3, "it does not move"},
          Activity{"busy"},
          Activities{{{3, "idle", std::chrono::milliseconds(40), true}, {4, "", {}, false}}},
          Rejoin{{.version = "1.0", .role = Role::server, .rank = 2, .machine = "boot"}, 8, 3}};
}

TEST(Messages, OneOfEachKindComesBackAsItWasSent) {
  const std::vector<Message> all = one_of_each();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  std::set<char> kinds;
  for (const Message& message : all) {
    const Message back = decode(encode(message));
    EXPECT_EQ(back.index(), message.index());
    EXPECT_EQ(encode(back), encode(message));
    EXPECT_TRUE(kinds.insert(encode(message)[0]).second) << message.index();
  }
  const auto welcome = std::get<Welcome>(decode(encode(all[3])));
  EXPECT_EQ(welcome.membership, (Membership{3, {{7, "a", Role::worker}, {9, "b", Role::server}}}));
  EXPECT_EQ(welcome.id, 9);
}

TEST(Messages, WhatIsCutOffOrTooLongOrOfNoKindIsCorrupt) {
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_THROW(decode(bytes.substr(0, length)), Corrupt) << bytes[0] << length;
    EXPECT_THROW(decode(bytes + "x"), Corrupt) << bytes[0];
  }
  EXPECT_THROW(decode("?"), Corrupt);
}

TEST(Messages, ChangedBytesAreAMessageOrCorrupt) {
  std::mt19937 random(17);
  for (int round = 0; round < 2000; ++round)
    for (const Message& message : one_of_each()) {
      std::string bytes = encode(message);
      bytes[random() % bytes.size()] = static_cast<char>(random());
      try {
        const Message other = decode(bytes);
        EXPECT_EQ(encode(other).size(), bytes.size());
      } catch (const Corrupt&) {
      }
    }
}

}  // namespace
}  // namespace lockstep::cluster::detail
