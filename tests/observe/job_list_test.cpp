// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/job_list.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/temporary_folder.h"

namespace lockstep::observe {
namespace {

JobEntry own_job() {
  return {.kind = JobEntry::Kind::launcher,
          .process = own_mark(),
          .command = "/usr/bin/lockstep launch -- ./mine",
          .folder = "/home/me",
          .began = 5};
}

TEST(JobList, AJobIsThereWhileItLives) {
  const testing::TemporaryFolder folder("jobs");
  const JobList list(folder.path() + "/a/b");
  EXPECT_TRUE(list.read().empty());
  {
    const ListedJob listed(list, own_job());
    ASSERT_EQ(list.read().size(), 1U);
    EXPECT_EQ(list.read()[0].name(), "lockstep");
    list.set_run(own_mark(), "/runs/digits");
    EXPECT_EQ(list.read()[0].name(), "digits");
    EXPECT_EQ(list.read()[0].kind, JobEntry::Kind::launcher);
    EXPECT_EQ(list.read()[0].command, own_job().command);
  }
  EXPECT_TRUE(list.read().empty());
}

TEST(JobList, WhatIsDeadIsRemovedAndWhatIsElsewhereStays) {
  const testing::TemporaryFolder folder("jobs");
  const JobList list(folder.path());
  JobEntry dead = own_job(), far = own_job();
  dead.process.start += 1;
  far.process.host = "another";
  list.put(dead);
  list.put(far);
  write_file(folder.path() + "/nonsense.json", "{");
  EXPECT_TRUE(list.read().empty());
  std::size_t left = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder.path()))
    ++left;
  EXPECT_EQ(left, 2U);
}

TEST(JobList, WithoutAFolderNothingIsKept) {
  const JobList list("");
  list.put(own_job());
  list.set_run(own_mark(), "/run");
  EXPECT_TRUE(list.read().empty());
  JobList("/proc/no/such").put(own_job());
}

}  // namespace
}  // namespace lockstep::observe
