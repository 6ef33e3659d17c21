// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "tests/cluster/child.h"
#include "tests/cluster/membership/end_of.h"
#include "tests/event.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::end_of;

RendezvousOptions survivor_of(const Coordinator& coordinator, int rank) {
  RendezvousOptions options;
  options.coordinator = coordinator.endpoint();
  options.secret = "open sesame";
  options.rank = rank;
  options.workers = 2;
  options.version = "1.0";
  options.survives = true;
  options.timeout = 10s;
  return options;
}

CoordinatorOptions coordinator_of_two() {
  CoordinatorOptions options;
  options.secret = "open sesame";
  options.workers = 2;
  options.timeout = 10s;
  return options;
}

// What is wanted of this worker, once anything is.
std::string wish(Rendezvous& member) {
  for (const auto end = comm::Clock::now() + 10s; comm::Clock::now() < end;)
    if (const auto change = member.poll_change())
      return change->why;
    else
      std::this_thread::sleep_for(1ms);
  return "nothing";
}

TEST(Survivors, OneThatEndsBeforeTheOthersListenIsMissedWhenTheyDo) {
  Coordinator coordinator(coordinator_of_two());
  testing::Event ended;
  Child other([&] {
    Rendezvous member(survivor_of(coordinator, 0));
    ended.await();
    return wish(member);
  });
  Child early([&] {
    {
      Rendezvous member(survivor_of(coordinator, 1));
      member.poll_change();
      member.query(10s);  // so that it has been heard
    }
    ended.set();
    return std::string("ended");
  });
  EXPECT_NE(end_of(coordinator).find("no worker is left that has the state"), std::string::npos);
  EXPECT_EQ(early.result(), "ended");
  EXPECT_EQ(other.result(), "it has ended");
}

}  // namespace
}  // namespace lockstep::cluster
