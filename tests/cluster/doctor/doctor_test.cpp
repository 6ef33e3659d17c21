// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/cluster/doctor/diagnosis.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "tests/cluster/child.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;

Examined healthy(const std::string& host) {
  Examined one;
  one.host = host;
  one.facts.version = "1.0";
  one.facts.processor = "Best Processor";
  one.facts.instructions = "avx2";
  one.facts.cores = one.facts.machine_cores = 4;
  one.facts.memory = one.facts.memory_free = std::int64_t{8} << 30;
  one.facts.shm = one.facts.shm_free = std::int64_t{1} << 30;
  one.facts.open_files = 1024;
  one.facts.first_port = 32768;
  one.facts.last_port = 60999;
  return one;
}

Examination two_hosts() {
  Examination seen;
  seen.members = {healthy("a"), healthy("b")};
  seen.links = {{0, 1, 50e-6, 1e9, 1e9}};
  return seen;
}

// What is said of an examination with one bad thing, which must be all.
Problem only_problem(const Examination& seen) {
  const std::vector<Problem> problems = diagnose(seen);
  EXPECT_EQ(problems.size(), 1u);
  return problems.empty() ? Problem{} : problems[0];
}

TEST(Diagnosis, OfHealthyHostsIsEmpty) { EXPECT_TRUE(diagnose(two_hosts()).empty()); }

TEST(Diagnosis, DifferentVersionsAreFatal) {
  Examination seen = two_hosts();
  seen.members[1].facts.version = "1.1";
  const Problem problem = only_problem(seen);
  EXPECT_TRUE(problem.fatal);
  EXPECT_EQ(problem.what, "lockstep has different versions: 1.0 on a; 1.1 on b");
}

TEST(Diagnosis, KernelsThatDieAreFatal) {
  Examination seen = two_hosts();
  seen.members[1].facts.bad_instructions = "amx ended by SIGILL";
  const Problem problem = only_problem(seen);
  EXPECT_TRUE(problem.fatal);
  EXPECT_EQ(problem.what, "b: kernels with amx ended by SIGILL");
}

TEST(Diagnosis, DifferentInstructionsAreAWarning) {
  Examination seen = two_hosts();
  seen.members[1].facts.instructions = "";
  const Problem problem = only_problem(seen);
  EXPECT_FALSE(problem.fatal);
  EXPECT_EQ(problem.what, "processors have different instruction sets: none on b; avx2 on a");
}

TEST(Diagnosis, SmallSharedMemoryIsFatalWhereMembersShareAHost) {
  Examination seen = two_hosts();
  seen.members[0].facts.shm_free = 64 << 10;
  EXPECT_TRUE(diagnose(seen).empty()) << "one member needs none";
  seen.members[1] = seen.members[0];
  EXPECT_EQ(only_problem(seen).what, "a: /dev/shm has 0 MB free of 1024, 2 members need 8");
}

TEST(Diagnosis, FewOpenFilesAreFatal) {
  Examination seen = two_hosts();
  seen.members[0].facts.open_files = 32;
  const Problem problem = only_problem(seen);
  EXPECT_TRUE(problem.fatal);
  EXPECT_EQ(problem.what, "a: a process may open 32 files, this job needs 72");
  EXPECT_EQ(problem.advice, "ulimit -n 72 before the job, or in /etc/security/limits.conf");
}

TEST(Diagnosis, AHostThatCannotReachAnotherIsFatal) {
  Examination seen = two_hosts();
  seen.unreachable = {{1, 0, "timed out"}};
  const Problem problem = only_problem(seen);
  EXPECT_TRUE(problem.fatal);
  EXPECT_EQ(problem.what, "b cannot reach a: timed out");
  EXPECT_EQ(problem.advice,
            "open the ports 32768-60999 between the hosts, or name another --interface");
}

TEST(Diagnosis, WhatIsOnlySlowOrOddIsAWarning) {
  Examination seen = two_hosts();
  seen.members[1].clock_offset = -90.06;
  EXPECT_EQ(only_problem(seen).what, "b: its clock is 90.1 s behind that of a");
  seen = two_hosts();
  seen.links[0].bandwidth = seen.links[0].back = 1e6;
  EXPECT_EQ(only_problem(seen).what, "a to b: 1.0 MB/s");
  seen = two_hosts();
  seen.links[0].latency = 0.02;
  EXPECT_EQ(only_problem(seen).what, "a to b: 20.0 ms from one to the other");
  seen = two_hosts();
  seen.members[0].facts.memory_free = 100 << 20;
  EXPECT_EQ(only_problem(seen).what, "a: 100 MB of memory are free for 1 members");
  seen = two_hosts();
  seen.members[0].facts.last_port = 32800;
  EXPECT_EQ(only_problem(seen).what, "a: the system deals ports 32768-32800 only");
  for (const Problem& one : diagnose(seen)) EXPECT_FALSE(one.fatal);
}

// Every pair of them, with a rate both ways.
Examination hosts_with(const std::string& names, double rate) {
  Examination seen;
  for (const char name : names) seen.members.push_back(healthy(std::string(1, name)));
  const auto size = static_cast<int>(names.size());
  for (int from = 0; from < size; ++from)
    for (int to = from + 1; to < size; ++to) seen.links.push_back({from, to, 50e-6, rate, rate});
  return seen;
}

TEST(Diagnosis, ALinkThatIsSlowOneWayIsNamedWithBothRates) {
  Examination seen = two_hosts();
  seen.links[0].back = 1.2e6;
  EXPECT_EQ(only_problem(seen).what, "b to a: 1.2 MB/s, but 1000.0 MB/s back");
  seen.links[0].back = 700e6;
  EXPECT_TRUE(diagnose(seen).empty());
}

TEST(Diagnosis, ASlowHostIsNamedOnceAndNotEachOfItsLinks) {
  Examination seen = hosts_with("abcde", 100e6);
  for (Link& link : seen.links) {
    if (link.from == 2) link.bandwidth = 2e6;
    if (link.to == 2) link.back = 2e6;
  }
  EXPECT_EQ(
      only_problem(seen).what,
      "c: a slow host: it sends 2.0 MB/s but receives 100.0 MB/s; most hosts have 100.0 MB/s");
  for (Link& link : seen.links)
    if (link.from == 2 || link.to == 2) link.bandwidth = link.back = 2e6;
  EXPECT_EQ(only_problem(seen).what,
            "c: a slow host: it sends 2.0 MB/s and receives 2.0 MB/s; most hosts have 100.0 MB/s");
}

TEST(Diagnosis, ASlowHostOfThreeIsNamed) {
  Examination seen = hosts_with("abc", 100e6);
  seen.links[1].back = seen.links[2].back = 2e6;  // c to a, c to b
  EXPECT_EQ(
      only_problem(seen).what,
      "c: a slow host: it sends 2.0 MB/s but receives 100.0 MB/s; most hosts have 100.0 MB/s");
}

TEST(Diagnosis, ASlowLinkBetweenFastHostsIsNamed) {
  Examination seen = hosts_with("abcde", 100e6);
  seen.links[0].bandwidth = 21e6;
  seen.links[0].back = 20e6;
  EXPECT_EQ(only_problem(seen).what,
            "b to a: 20.0 MB/s, while b sends 100.0 MB/s and a receives 100.0 MB/s elsewhere");
}

TEST(Diagnosis, WhatHoldsForManyLinksIsNotSaidOfEach) {
  Examination seen = hosts_with("abcdefgh", 2e6);
  const std::vector<Problem> problems = diagnose(seen);
  ASSERT_EQ(problems.size(), 5u);
  EXPECT_EQ(problems[4].what.substr(0, 16), "24 more links as");
}

TEST(Diagnosis, LinksWithoutARateAreNotSlow) {
  Examination seen = hosts_with("abcde", 100e6);
  for (Link& link : seen.links)
    if (link.from != 0) link.bandwidth = link.back = 0;
  EXPECT_TRUE(diagnose(seen).empty());
}

TEST(Diagnosis, NamesTheFatalFirst) {
  Examination seen = two_hosts();
  seen.members[1].clock_offset = 5;
  seen.members[1].facts.open_files = 3;
  const std::vector<Problem> problems = diagnose(seen);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_TRUE(problems[0].fatal);
  EXPECT_FALSE(problems[1].fatal);
}

TEST(HostFacts, SurviveTheWay) {
  const HostFacts own = look_at_host(), back = facts_from(to_bytes(own));
  EXPECT_EQ(to_bytes(back), to_bytes(own));
  EXPECT_FALSE(back.version.empty());
  EXPECT_GT(back.cores, 0);
  EXPECT_GT(back.memory_free, 0);
  EXPECT_GT(back.last_port, back.first_port);
  EXPECT_THROW(facts_from(to_bytes(own).substr(9)), Corrupt);
}

// What rank 0 has found out about a job of these hosts.
std::string examine_members(const std::vector<std::string>& hosts) {
  CoordinatorOptions options;
  options.secret = "hush";
  options.workers = static_cast<int>(hosts.size());
  options.timeout = 20s;
  Coordinator coordinator(options);
  std::vector<Child> members;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    members.emplace_back([&, rank] {
      Place place;
      place.rank = static_cast<int>(rank);
      place.workers = options.workers;
      place.coordinator = coordinator.endpoint();
      place.secret = "hush";
      place.host = hosts[rank];
      const Examination seen = examine(place, {});
      std::string text =
          fmt::format("{} unreachable, broken '{}'", seen.unreachable.size(), seen.broken);
      for (const Examined& one : seen.members) text += " " + one.host + "@" + one.interface;
      for (const Link& link : seen.links)
        text += fmt::format(" {}-{}:{}", link.from, link.to,
                            link.latency > 0 && link.bandwidth > 0 && link.back > 0);
      return text;
    });
  coordinator.run();
  return members[0].result();
}

TEST(Examination, MeasuresEveryPairOnOneHostAndOnSeveral) {
  EXPECT_EQ(examine_members({"a", "a", "a"}),
            "0 unreachable, broken '' a@lo a@lo a@lo 0-1:true 0-2:true 1-2:true");
  EXPECT_EQ(examine_members({"a", "b", "b"}),
            "0 unreachable, broken '' a@lo b@lo b@lo 0-1:true 0-2:true 1-2:true");
}

}  // namespace
}  // namespace lockstep::cluster
