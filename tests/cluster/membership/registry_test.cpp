// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lockstep/cluster/membership/detail/registry_table.h"
#include "lockstep/cluster/membership/local_registry.h"
#include "tests/cluster/membership/job_here.h"
#include "tests/message.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::JobHere;
using testing::message_of;

// Of many threads that all try to be next at the same version exactly one wins, so a counter that
// each raises as often as it wins counts every win once.
void expect_each_win_counts_once(const std::vector<Registry*>& registries) {
  constexpr int kWins = 25;
  std::atomic<std::int64_t> tries = 0;
  {
    std::vector<std::jthread> threads;
    for (Registry* registry : registries)
      threads.emplace_back([&tries, registry] {
        ComparedEntry now;
        for (int wins = 0; wins < kWins; ++tries) {
          const std::int64_t value = now.bytes.empty() ? 0 : std::stoll(now.bytes);
          now = registry->compare_and_set("counter", now.version, std::to_string(value + 1));
          wins += now.won ? 1 : 0;
        }
      });
  }
  const auto all = kWins * static_cast<std::int64_t>(registries.size());
  const RegistryEntry last = registries[0]->get("counter", 5s);
  EXPECT_EQ(last.bytes, std::to_string(all));
  EXPECT_EQ(last.version, all);
  EXPECT_GE(tries, all);
}

TEST(RegistryTable, VersionsGrowAndAComparisonWithAnOlderOneLoses) {
  detail::RegistryTable table;
  EXPECT_EQ(table.find("a"), nullptr);
  EXPECT_FALSE(table.compare_and_set("a", 1, "early").won);
  EXPECT_EQ(table.find("a"), nullptr);
  const ComparedEntry first = table.compare_and_set("a", 0, "one");
  EXPECT_TRUE(first.won);
  EXPECT_EQ(first.version, 1);
  EXPECT_EQ(table.put("a", "two"), 2);
  const ComparedEntry late = table.compare_and_set("a", 1, "three");
  EXPECT_FALSE(late.won);
  EXPECT_EQ(late.version, 2);
  EXPECT_EQ(late.bytes, "two");
  EXPECT_EQ(table.find("a", 2), nullptr);
  EXPECT_EQ(table.find("a", 1)->bytes, "two");
}

TEST(RegistryTable, HoldsNoMoreThanItMay) {
  detail::RegistryTable table;
  EXPECT_EQ(message_of<InvalidArgument>([&] { table.put("", "x"); }),
            "registry: a name of 0 characters, expected 1 to 256");
  EXPECT_EQ(message_of<InvalidArgument>([&] { table.put(std::string(257, 'n'), "x"); }),
            "registry: a name of 257 characters, expected 1 to 256");
  EXPECT_EQ(message_of<InvalidArgument>([&] { table.put("a\nb", "x"); }),
            "registry: a name with bytes that cannot be shown, expected ASCII");
  EXPECT_EQ(message_of<InvalidArgument>([&] { table.put("a", std::string((1 << 20) + 1, 'x')); }),
            "registry: 'a' has 1048577 bytes, expected at most 1048576");
  const std::string large(Registry::kLongestValue, 'x');
  for (int i = 0; i < 63; ++i) table.put("large" + std::to_string(i), large);
  table.put("large0", large);  // in its own place
  EXPECT_EQ(message_of<InvalidArgument>([&] { table.put("more", large); }),
            "registry: 'more' with 1048576 bytes is too much; it holds 67108864 in all");
  EXPECT_EQ(table.find("more"), nullptr);
  table.put("large0", "");
  EXPECT_EQ(table.put("more", large), 1);
}

TEST(RegistryTable, HoldsNoMoreNamesThanItMay) {
  detail::RegistryTable table;
  for (std::size_t i = 0; i < Registry::kMostNames; ++i) table.put(std::to_string(i), "");
  EXPECT_EQ(message_of<InvalidArgument>([&] { table.put("more", ""); }),
            "registry: 'more' is one name too many; it holds 65536");
  EXPECT_EQ(table.put("7", "again"), 2);
}

TEST(LocalRegistry, WaitsForWhatAnotherThreadPutsAndCountsEachWinOnce) {
  LocalRegistry registry;
  EXPECT_EQ(message_of<comm::Timeout>([&] { registry.get("a", 1ms); }),
            "registry: 'a' was not put within 0.0 s");
  std::jthread putting([&] { registry.put("a", "x"); });
  EXPECT_EQ(registry.get("a", 20s).bytes, "x");
  expect_each_win_counts_once(std::vector<Registry*>(4, &registry));
}

TEST(Registry, MembersOfEveryRoleSeeWhatAnyOfThemPuts) {
  const JobHere job(2, 2);
  EXPECT_EQ(job.members[3]->put("endpoint/1", std::string("a\0b", 3)), 1);
  for (const auto& member : job.members) {
    const RegistryEntry entry = member->get("endpoint/1", 5s);
    EXPECT_EQ(entry.bytes, std::string("a\0b", 3));
    EXPECT_EQ(entry.version, 1);
  }
  EXPECT_EQ(job.members[0]->put("endpoint/1", ""), 2);
  EXPECT_EQ(job.members[2]->get("endpoint/1", 5s).bytes, "");
}

// The thread that is in an all_gather, or in a get, holds nobody up.
TEST(Registry, IsUsedFromOneThreadWhileAnotherWaits) {
  const JobHere job(2, 1);
  std::jthread gathers([&] { job.members[0]->all_gather("first", 20s); });
  RegistryEntry got, newer;
  {
    const std::jthread waits([&] { got = job.members[0]->get("late", 20s); });
    const std::jthread waits_longer(
        [&] { newer = job.members[0]->get("late", 20s, {.newer_than = 1}); });
    EXPECT_EQ(job.members[0]->put("early", "x"), 1);
    EXPECT_EQ(job.members[2]->put("late", "y"), 1);
    EXPECT_EQ(job.members[2]->get("late", 20s).bytes, "y");
    EXPECT_EQ(job.members[1]->put("late", "z"), 2);
  }
  EXPECT_GE(got.version, 1);
  EXPECT_EQ(newer.bytes, "z");
  job.members[1]->all_gather("second", 20s);
}

TEST(Registry, CountsEachWinOfManyMembersAndThreadsOnce) {
  const JobHere job(3, 2);
  std::vector<Registry*> registries;
  for (const auto& member : job.members) registries.insert(registries.end(), 2, member.get());
  expect_each_win_counts_once(registries);
}

TEST(Registry, WhatNobodyPutsIsATimeoutThatNamesItAndWhoDidNot) {
  const JobHere job(1, 2);
  Rendezvous& worker = *job.members[0];
  EXPECT_EQ(message_of<comm::Timeout>([&] { worker.get("view", 30ms); }),
            "registry: 'view' was not put within 0.0 s by any member");
  EXPECT_EQ(message_of<comm::Timeout>([&] { worker.get("endpoint/1", 0ms, {.from = 2}); }),
            "registry: 'endpoint/1' was not put within 0.0 s by server 1 (here)");
  worker.put("view", "x");
  EXPECT_EQ(message_of<comm::Timeout>([&] { worker.get("view", 1ms, {.newer_than = 1}); }),
            "registry: 'view' got no version after 1 within 0.0 s by any member");
  EXPECT_EQ(worker.get("view", 5s).bytes, "x");  // nothing is broken
}

TEST(Registry, WhatAMemberThatHasLeftDoesNotPutIsPeerLostAtOnce) {
  JobHere job(1, 2);
  std::string message;
  {
    const std::jthread waits([&] {
      message =
          message_of<comm::PeerLost>([&] { job.members[0]->get("endpoint/1", 60s, {.from = 2}); });
    });
    job.members[2].reset();
  }
  EXPECT_EQ(message, "registry: 'endpoint/1' will not come: server 1 (here) has left the job");
  EXPECT_EQ(job.members[0]->put("more", "x"), 1);
}

TEST(Registry, BadInputIsAnErrorOfTheCallerAlone) {
  const JobHere job(2, 0);
  Rendezvous& one = *job.members[0];
  EXPECT_EQ(message_of<InvalidArgument>([&] { one.get("", 1s); }),
            "registry: a name of 0 characters, expected 1 to 256");
  EXPECT_EQ(message_of<InvalidArgument>([&] { one.put("a", std::string(80 << 20, 'x')); }),
            "registry: 'a' has 83886080 bytes, expected at most 1048576");
  const std::string large(Registry::kLongestValue, 'x');
  for (int i = 0; i < 63; ++i) one.put(std::to_string(i), large);
  EXPECT_EQ(message_of<InvalidArgument>([&] { one.compare_and_set("more", 0, large); }),
            "registry: 'more' with 1048576 bytes is too much; it holds 67108864 in all");
  EXPECT_EQ(one.put("small", "x"), 1);
  EXPECT_EQ(job.members[1]->get("small", 5s).bytes, "x");
}

}  // namespace
}  // namespace lockstep::cluster
