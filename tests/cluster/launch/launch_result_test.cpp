// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster {
namespace {

MemberEnd with_status(int rank, int status) {
  return {.id = rank, .rank = rank, .host = {}, .status = status};
}

MemberEnd with_signal(int rank, int signal, bool by_launcher = false) {
  MemberEnd end{.id = rank, .rank = rank};
  end.signal = signal;
  end.by_launcher = by_launcher;
  return end;
}

LaunchResult result_of(std::vector<MemberEnd> ends, std::vector<Complaint> complaints = {}) {
  LaunchResult result;
  result.ends = std::move(ends);
  result.complaints = std::move(complaints);
  result.note_complaints();
  return result;
}

std::string culprit_of(const LaunchResult& result) {
  return result.culprit() == nullptr ? "nobody" : result.culprit()->str();
}

TEST(LaunchResult, NamesWhoFailedFirstWhereNobodyMissesAnybody) {
  EXPECT_EQ(culprit_of(result_of({with_status(0, 0), with_status(2, 1), with_status(1, 1)})),
            "worker 2 ended with status 1");
}

TEST(LaunchResult, NamesWhoIsMissedAndNotWhoNoticed) {
  const auto result =
      result_of({with_status(0, 1), with_status(2, 1), with_signal(1, SIGKILL, true)},
                {{0, 1, "rank 1 is late"}, {2, 0, "aborted by rank 0"}});
  EXPECT_EQ(culprit_of(result), "worker 1 is missed by worker 0: rank 1 is late");
}

TEST(LaunchResult, FollowsComplaintsToOneWhoMakesNone) {
  const auto result = result_of({with_status(2, 1), with_status(0, 1), with_status(1, 1)},
                                {{2, 0, "aborted by rank 0"}, {0, 1, "rank 1 is gone"}});
  EXPECT_EQ(culprit_of(result), "worker 1 ended with status 1");
}

TEST(LaunchResult, OfHostsThatMissEachOtherNamesTheOneThatMostMiss) {
  const auto result =
      result_of({with_status(0, 1), with_status(1, 1), with_status(2, 1)},
                {{0, 1, "no way to b"}, {1, 0, "no way to a"}, {2, 1, "none to b"}});
  EXPECT_EQ(culprit_of(result), "worker 1 is missed by worker 0: no way to b");
}

TEST(LaunchResult, TakesTheCoordinatorsWordForWhoNeverCame) {
  const auto result =
      result_of({with_status(0, 1), with_status(1, 1)}, {{-1, 1, "missing: rank 1"}});
  EXPECT_EQ(culprit_of(result), "worker 1 ended with status 1");
}

TEST(LaunchResult, WhoWasKilledIsNamedBeforeThoseWhoMissedIt) {
  const auto result = result_of({with_status(0, 1), with_signal(1, SIGKILL)}, {{0, 1, "gone"}});
  EXPECT_EQ(culprit_of(result), "worker 1 was ended by signal 9 (Killed)");
}

TEST(LaunchResult, OfAJobThatWasStoppedNobodyIsToBlameUnlessItFailedBefore) {
  auto result = result_of({with_status(0, 1), with_status(1, 143)});
  result.stopped_by = SIGTERM;
  EXPECT_EQ(culprit_of(result), "nobody");
  result.ended_before_stop = 1;
  EXPECT_EQ(culprit_of(result), "worker 0 ended with status 1");
}

TEST(LaunchResult, WhoFailsSinceAnotherWasAskedToStopIsNotToBlame) {
  auto result = result_of({with_status(0, 1), with_status(1, 143)}, {{0, 1, "rank 1 is gone"}});
  result.stopped_by = SIGTERM;
  result.ended_before_stop = 1;
  EXPECT_EQ(culprit_of(result), "nobody");
}

// A server that the job could do without.
MemberEnd lost_server(int id, int signal) {
  MemberEnd end = with_signal(id, signal);
  end.role = Role::server;
  end.tolerated = true;
  return end;
}

TEST(LaunchResult, IsThatOfTheWorkersWhereAServerCouldBeSpared) {
  const auto good = result_of({lost_server(3, SIGKILL), with_status(0, 0), with_status(1, 0)});
  EXPECT_TRUE(good.is_good());
  EXPECT_EQ(culprit_of(good), "nobody");
  const auto failed = result_of({lost_server(3, SIGTERM), with_status(1, 1), with_status(0, 1)});
  EXPECT_FALSE(failed.is_good());
  EXPECT_EQ(culprit_of(failed), "worker 1 ended with status 1");
  EXPECT_EQ(culprit_of(result_of({lost_server(3, SIGKILL), with_status(0, 1)},
                                 {{0, 3, "server 3 is gone"}})),
            "worker 0 ended with status 1");
}

}  // namespace
}  // namespace lockstep::cluster
