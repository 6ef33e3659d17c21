// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/job_status.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::observe {
namespace {

using testing::message_of;

JobStatus two_workers() {
  JobStatus status;
  status.state = JobStatus::State::training;
  status.recipe = "mnist-mlp";
  status.run = "/runs/a";
  status.generation = 1;
  status.workers = 2;
  status.step = 120;
  status.total_steps = 400;
  status.epoch = 1;
  status.loss = 0.5;
  status.samples_per_s = 1000;
  status.began = 1000;
  status.written = 1035;
  status.launcher = status.writer = own_mark();
  status.members = {
      {.id = 0, .rank = 0, .host = "a", .pid = 11, .end_shard = 4, .step = 120, .compute_s = 0.012},
      {.id = 1, .rank = 1, .host = "b", .pid = 12, .first_shard = 4, .end_shard = 8, .step = 119}};
  return status;
}

TEST(JobStatus, IsReadBackFromItsFolder) {
  const testing::TemporaryFolder folder("status");
  JobStatus status = two_workers();
  status.members[0].waiting = MemberStatus::Waiting{"tree_sum", 1, 2.5};
  status.message = "\xff is no text";
  ASSERT_TRUE(write_status(folder.path(), status));
  const JobStatus read = read_status(folder.path());
  EXPECT_EQ(read.state, JobStatus::State::training);
  EXPECT_EQ(read.step, 120);
  EXPECT_EQ(read.writer, status.writer);
  ASSERT_EQ(read.members.size(), 2U);
  EXPECT_EQ(read.members[1].first_shard, 4);
  EXPECT_FALSE(read.members[1].waiting);
  ASSERT_TRUE(read.members[0].waiting);
  EXPECT_EQ(read.members[0].waiting->operation, "tree_sum");
  EXPECT_EQ(read.members[0].waiting->rank, 1);
}

TEST(JobStatus, WhatIsNoStatusIsCorrupt) {
  const testing::TemporaryFolder folder("status");
  EXPECT_THROW(read_status(folder.path()), NotFound);
  for (const char* text : {"", "{", "[]", "{}", R"({"state": "asleep"})"}) {
    write_file(folder.path() + "/status.json", text);
    EXPECT_THROW(read_status(folder.path()), Corrupt) << text;
  }
  EXPECT_THROW(member_from_json("", "a member"), Corrupt);
}

TEST(JobStatus, AFolderThatIsGoneIsNoError) {
  EXPECT_FALSE(write_status("/there/is/no/such", two_workers()));
}

TEST(JobStatus, AJobThatWritesRuns) {
  EXPECT_EQ(judge(two_workers(), 1036).kind, Verdict::Kind::running);
}

TEST(JobStatus, AJobThatShouldHaveWrittenIsStale) {
  const Verdict verdict = judge(two_workers(), 1055);
  EXPECT_EQ(verdict.kind, Verdict::Kind::stale);
  EXPECT_NE(verdict.reason.find("wrote 0:20 ago: it hangs"), std::string::npos) << verdict.reason;
  JobStatus far = two_workers();
  far.writer.host = "another";
  EXPECT_EQ(judge(far, 1036).kind, Verdict::Kind::running);
  EXPECT_NE(judge(far, 1055).reason.find("it is gone, or its host"), std::string::npos);
}

TEST(JobStatus, AJobWhoseFirstWorkerIsGoneIsDead) {
  JobStatus status = two_workers();
  status.writer.start += 1;
  const Verdict verdict = judge(status, 1036);
  EXPECT_EQ(verdict.kind, Verdict::Kind::dead);
  EXPECT_NE(verdict.reason.find("at step 120"), std::string::npos);
  status.state = JobStatus::State::finished;  // one that has said how it ended is not
  EXPECT_EQ(judge(status, 9999).kind, Verdict::Kind::finished);
}

TEST(JobStatus, NamesTheOneWhomOthersWaitFor) {
  JobStatus status = two_workers();
  status.workers = 3;
  status.members.push_back({.id = 2, .rank = 2, .host = "b", .pid = 13});
  status.members[0].waiting = MemberStatus::Waiting{"tree_sum", 1, 2.5};
  status.members[1].waiting = MemberStatus::Waiting{"tree_sum", 2, 2.4};
  const std::string text = status_text(status, judge(status, 1036), 1036);
  EXPECT_NE(text.find("/runs/a: running, step 120 of 400 (epoch 1), 1,000 samples/s, loss 0.5"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("mnist-mlp, 3 workers, generation 1, 0:36\n"), std::string::npos) << text;
  EXPECT_NE(text.find("waited for: worker 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("waits 2.5 s for worker 1 in tree_sum"), std::string::npos) << text;
}

TEST(JobStatus, AShortWaitIsNoNews) {
  JobStatus status = two_workers();
  status.members[0].waiting = MemberStatus::Waiting{"tree_sum", 1, 0.01};
  const std::string text = status_text(status, judge(status, 1036), 1036);
  EXPECT_EQ(text.find("waited for"), std::string::npos) << text;
  status.members[1].heard_s = 8;
  EXPECT_NE(status_text(status, judge(status, 1036), 1036).find("waited for: worker 1\n"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::observe
