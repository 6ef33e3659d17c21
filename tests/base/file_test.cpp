// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

// Whoever may write in the folder may put a link where a process will write.
TEST(AtomicFile, DoesNotWriteThroughALinkThatSomebodyPutThere) {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.path() + "/model", victim = folder.path() + "/victim";
  write_file(victim, "precious");
  fs::create_symlink(victim, fmt::format("{}.tmp{}", path, ::getpid()));
  write_file(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(read_file(victim), "precious");
}

TEST(AtomicFile, TwoOfOneProcessDoNotWriteIntoEachOther) {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.path() + "/model";
  AtomicFile first(path), second(path);
  const std::string one = "one", two = "two";
  first.write(std::as_bytes(std::span(one)));
  second.write(std::as_bytes(std::span(two)));
  first.commit();
  EXPECT_EQ(read_file(path), "one");
  second.commit();
  EXPECT_EQ(read_file(path), "two");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"model"});
}

TEST(AtomicFile, ThatMayNotGrowLeavesNothing) {
  const testing::TemporaryFolder folder("file");
  const std::string path = folder.path() + "/model";
  {
    const testing::FileSizeLimit limit(1000);
    EXPECT_EQ(message_of<IoError>([&] { write_file(path, std::string(5000, 'x')); }),
              path + ": cannot write: File too large");
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(ReadFile, WhatNeverEndsIsNoFile) {
  EXPECT_EQ(message_of<IoError>([] { read_file("/dev/zero"); }),
            "/dev/zero: is no file, and does not end after 268435456 bytes");
}

}  // namespace
}  // namespace lockstep
