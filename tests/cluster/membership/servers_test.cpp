// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "tests/cluster/child.h"
#include "tests/cluster/membership/end_of.h"
#include "tests/cluster/membership/job_here.h"
#include "tests/message.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::end_of;
using testing::JobHere;
using testing::message_of;

// Until the condition holds; false when it never does.
template <class Condition>
bool await(const Condition& condition) {
  const auto end = comm::Clock::now() + 20s;
  while (!condition() && comm::Clock::now() < end) std::this_thread::sleep_for(2ms);
  return condition();
}

CoordinatorOptions two_and_two() {
  CoordinatorOptions options;
  options.secret = "open sesame";
  options.workers = options.servers = 2;
  options.timeout = 10s;
  return options;
}

RendezvousOptions member_of(const Coordinator& coordinator, Role role, int rank, bool tolerates) {
  RendezvousOptions options;
  options.coordinator = coordinator.endpoint();
  options.secret = "open sesame";
  options.role = role;
  options.rank = rank;
  options.workers = options.servers = 2;
  options.host = "here";
  options.timeout = 10s;
  options.tolerates_lost_servers = tolerates;
  return options;
}

// A server that stays until the workers have left, or says why the job ended otherwise.
std::string serve(const RendezvousOptions& options) {
  Rendezvous own(options);
  return await([&] { return own.have_workers_left(); }) ? "all left" : "nobody leaves";
}

TEST(Servers, HearWhenTheLastWorkerHasLeft) {
  JobHere job(2, 2);
  EXPECT_FALSE(job.members[2]->have_workers_left());
  job.members[0].reset();
  EXPECT_TRUE(
      await([&] { return job.members[2]->query(5s).absent == std::vector<std::int64_t>{0}; }));
  EXPECT_FALSE(job.members[2]->have_workers_left());
  job.members[1].reset();
  EXPECT_TRUE(await([&] { return job.members[2]->have_workers_left(); }));
  EXPECT_TRUE(job.members[2]->have_workers_left());
  EXPECT_TRUE(await([&] { return job.members[3]->have_workers_left(); }));  // asks when it is so
  job.members[2]->put("still", "there");
  EXPECT_EQ(job.members[3]->get("still", 5s).bytes, "there");
}

TEST(Servers, OneThatIsKilledIsAbsentAndTheJobGoesOnWhereAllTolerateIt) {
  Coordinator coordinator(two_and_two());
  const auto worker = [&](int rank) {
    return Child([&, rank] {
      Rendezvous own(member_of(coordinator, Role::worker, rank, true));
      const bool absent =
          await([&] { return own.query(5s).absent == std::vector<std::int64_t>{3}; });
      const std::string missed =
          message_of<comm::PeerLost>([&] { own.get("endpoint/1", 20s, {.from = 3}); });
      own.all_gather("both go on", 10s);
      return fmt::format("{} {}", absent, missed);
    });
  };
  Child workers[]{worker(0), worker(1)};
  Child good([&] { return serve(member_of(coordinator, Role::server, 0, true)); });
  Child killed([&] {
    const Rendezvous own(member_of(coordinator, Role::server, 1, true));
    ::raise(SIGKILL);
    return "lives";
  });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_TRUE(coordinator.tolerates_lost_servers());
  for (Child& one : workers)
    EXPECT_EQ(one.result(),
              "true registry: 'endpoint/1' will not come: server 1 (here) has left the job");
  EXPECT_EQ(good.result(), "all left");
  EXPECT_EQ(killed.result(), "signal 9");
}

TEST(Servers, WhatServersGatherIsPeerLostOnceOneOfThemIsGone) {
  Coordinator coordinator(two_and_two());
  const auto worker = [&](int rank) {
    return Child([&, rank] {
      Rendezvous own(member_of(coordinator, Role::worker, rank, true));
      await([&] { return own.query(5s).absent.size() == 2; });
      return std::to_string(own.rank() * 0);
    });
  };
  Child workers[]{worker(0), worker(1)};
  Child gathers([&] {
    Rendezvous own(member_of(coordinator, Role::server, 0, true));
    const std::string who = "rendezvous: server 1 (here)";
    return message_of<comm::PeerLost>([&] { own.all_gather("in vain", 20s); })
        .substr(0, who.size());
  });
  Child killed([&] {
    const Rendezvous own(member_of(coordinator, Role::server, 1, true));
    ::raise(SIGKILL);
    return "lives";
  });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(gathers.result(), "rendezvous: server 1 (here)");
  for (Child& one : workers) EXPECT_EQ(one.result(), "0");
}

// Of a job of two workers and two servers, with what the given member's death means to another.
std::string outcome_of_killing(Role role, int rank, bool tolerates, std::string& servers_word) {
  Coordinator coordinator(two_and_two());
  std::vector<Child> members;
  for (const Role each : {Role::worker, Role::server})
    for (int i = 0; i < 2; ++i)
      members.emplace_back([&, each, i] {
        const RendezvousOptions options =
            member_of(coordinator, each, i, tolerates || (each == Role::worker && i == 0));
        if (each == Role::server && !(role == each && rank == i)) return serve(options);
        Rendezvous own(options);
        if (role == each && rank == i) ::raise(SIGKILL);
        own.get("never", 20s);
        return std::string("got it");
      });
  std::string outcome = end_of(coordinator);
  servers_word = members[2].result();
  return outcome.substr(0, outcome.find(" was"));
}

TEST(Servers, OneThatIsKilledEndsTheJobWhereNotAllTolerateIt) {
  std::string word;
  EXPECT_EQ(outcome_of_killing(Role::server, 1, false, word),
            "PeerLost: rendezvous: server 1 (here)");
  EXPECT_EQ(word.substr(0, word.find(" was")), "PeerLost: rendezvous: server 1 (here)");
}

TEST(Servers, AWorkerThatIsKilledEndsTheJobAndTheServersHearIt) {
  std::string word;
  EXPECT_EQ(outcome_of_killing(Role::worker, 1, true, word), "PeerLost: rendezvous: rank 1 (here)");
  EXPECT_EQ(word.substr(0, word.find(" was")), "PeerLost: rendezvous: rank 1 (here)");
}

}  // namespace
}  // namespace lockstep::cluster
