// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/comm/socket.h"
#include "tests/cluster/membership/job_here.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::JobHere;

// What the first worker hears once the condition is so; by a deadline in any case.
template <class Condition>
std::vector<MemberReport> reports_when(JobHere& job, const Condition& is_so) {
  const auto end = comm::Clock::now() + 20s;
  std::vector<MemberReport> reports;
  do {
    reports = job.members[0]->report("first");
    if (is_so(reports)) return reports;
    std::this_thread::yield();
  } while (comm::Clock::now() < end);
  ADD_FAILURE() << "it does not happen";
  return reports;
}

TEST(Report, TheFirstWorkerHearsWhatAllMembersSaid) {
  JobHere job(2, 1);
  EXPECT_TRUE(job.members[1]->report("second").empty());
  EXPECT_TRUE(job.members[2]->report("server").empty());
  const auto reports = reports_when(job, [](const std::vector<MemberReport>& all) {
    return all.size() == 3 && !all[1].text.empty() && !all[2].text.empty();
  });
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].text, "first");
  EXPECT_EQ(reports[1].text, "second");
  EXPECT_EQ(reports[2].text, "server");
  EXPECT_EQ(reports[2].id, 2);
  EXPECT_FALSE(reports[1].has_left);
}

TEST(Report, WhoSaysNothingGrowsOld) {
  JobHere job(2, 0);
  const auto reports = reports_when(job, [](const std::vector<MemberReport>& all) {
    return all.size() == 2 && all[1].age > 200ms;
  });
  EXPECT_TRUE(reports[1].text.empty());
  EXPECT_LT(reports[0].age, reports[1].age);
}

TEST(Report, WhoHasLeftIsKnownToHave) {
  JobHere job(2, 0);
  job.members[1].reset();
  reports_when(
      job, [](const std::vector<MemberReport>& all) { return all.size() == 2 && all[1].has_left; });
}

TEST(Report, DoesNotWaitForTheAnswer) {
  JobHere job(2, 0);
  const auto begin = comm::Clock::now();
  for (int i = 0; i < 1000; ++i) job.members[1]->report("again");
  EXPECT_LT(comm::Clock::now() - begin, 10s);
  EXPECT_EQ(job.members[1]->query(5s).membership.members.size(), 2U);  // and nothing is broken
}

}  // namespace
}  // namespace lockstep::cluster
