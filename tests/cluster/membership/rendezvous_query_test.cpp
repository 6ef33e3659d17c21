// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "tests/cluster/child.h"
#include "tests/cluster/membership/end_of.h"
#include "tests/cluster/membership/rendezvous_parts.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::coordinator_options;
using testing::end_of;
using testing::member_of;
using testing::text_of;

TEST(Rendezvous, TheCoordinatorIsAskedByMembersAndByOthersWhoIsThere) {
  Coordinator coordinator(coordinator_options(2));
  const auto member = [&](int rank) {
    return Child([&, rank] {
      Rendezvous own(member_of(coordinator, Role::worker, rank, 2, 0));
      own.all_gather("all are here", 5s);
      const MembershipStatus asked = query_membership(coordinator.endpoint(), "open sesame", 5s);
      const bool same = asked.membership == own.query(5s).membership;
      own.all_gather("all have asked", 5s);
      return fmt::format("{} {} {}", text_of(asked.membership), same, asked.absent.size());
    });
  };
  Child first = member(0), second = member(1);
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(first.result(), "1 0:worker0 1:worker1 true 0");
  EXPECT_EQ(second.result(), "1 0:worker0 1:worker1 true 0");
}

// Asks until so many are absent; which they are.
std::vector<std::int64_t> await_absent(Rendezvous& member, std::size_t count) {
  const auto end = comm::Clock::now() + 20s;
  while (comm::Clock::now() < end) {
    auto absent = member.query(5s).absent;
    if (absent.size() == count) return absent;
    std::this_thread::sleep_for(5ms);
  }
  return {-1};
}

// The first asks, the second is stopped for a while, and the third says nothing of its own.
TEST(Rendezvous, OnlyAMemberWhoseHeartbeatsDoNotComeIsAbsent) {
  CoordinatorOptions options = coordinator_options(3);
  options.heartbeat = 600ms;
  Coordinator coordinator(options);
  Child second([&] {
    Rendezvous own(member_of(coordinator, Role::worker, 1, 3, 0));
    ::raise(SIGSTOP);
    return std::to_string(own.all_gather("goes on", 30s).size());
  });
  Child third([&] {
    Rendezvous own(member_of(coordinator, Role::worker, 2, 3, 0));
    return std::to_string(own.all_gather("waits", 30s).size());
  });
  // After the forks: the child of a process with threads cannot start its own under
  // ThreadSanitizer.
  std::jthread server([&] { EXPECT_EQ(end_of(coordinator), "done"); });
  {
    Rendezvous first(member_of(coordinator, Role::worker, 0, 3, 0));
    EXPECT_EQ(await_absent(first, 1), std::vector<std::int64_t>{1});
    second.signal(SIGCONT);
    EXPECT_EQ(await_absent(first, 0), std::vector<std::int64_t>{});
    EXPECT_EQ(first.all_gather("asks", 30s).size(), 3U);
  }
  EXPECT_EQ(second.result(), "3");
  EXPECT_EQ(third.result(), "3");
}

}  // namespace
}  // namespace lockstep::cluster
