// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/hosts_file.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/temporary_folder.h"

namespace lockstep::cluster::detail {
namespace {

class HostsFileTest : public ::testing::Test {
 protected:
  HostsFileTest() { write_file(path, "a:2\n"); }

  testing::TemporaryFolder folder{"hosts_file"};
  std::string path = folder.path() + "/hosts";
};

TEST_F(HostsFileTest, WhatItSaidFromTheBeginningIsNoNews) {
  HostsFile file(path);
  EXPECT_FALSE(file.changed());
}

TEST_F(HostsFileTest, AChangeIsToldOnce) {
  HostsFile file(path);
  write_file(path, "a:2\nb:1\n");
  const auto now = file.changed();
  ASSERT_TRUE(now);
  ASSERT_EQ(now->size(), 2U);
  EXPECT_EQ(now->at(1).name, "b");
  EXPECT_FALSE(file.changed());
}

TEST_F(HostsFileTest, OneThatMakesNoSenseIsRefusedOnceAndReadAgainWhenItChanges) {
  HostsFile file(path);
  write_file(path, "a:no\n");
  EXPECT_THROW(file.changed(), InvalidArgument);
  EXPECT_FALSE(file.changed());
  write_file(path, "a:2\nb:12\n");
  EXPECT_TRUE(file.changed());
}

TEST_F(HostsFileTest, OneThatIsGoneForAMomentChangesNothing) {
  HostsFile file(path);
  std::filesystem::remove(path);
  EXPECT_FALSE(file.changed());
  write_file(path, "a:2\nb:1\n");
  EXPECT_TRUE(file.changed());
}

TEST(HostsFile, WhereThereIsNoneNothingChanges) { EXPECT_FALSE(HostsFile("").changed()); }

}  // namespace
}  // namespace lockstep::cluster::detail
