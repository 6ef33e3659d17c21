// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Process, KeepsWhatTheProgramWroteAndItsStatus) {
  const ProcessResult result = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
}

TEST(Process, RunsInItsFolderWithAnEmptyInput) {
  EXPECT_EQ(run_process({"sh", "-c", "pwd; cat"}, {.folder = "/"}).output, "/\n");
}

TEST(Process, ASignalIsAStatusToo) {
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}).status, 128 + 9);
}

TEST(Process, MuchOutputDoesNotBlock) {
  EXPECT_EQ(run_process({"sh", "-c", "head -c 3000000 /dev/zero"}).output.size(), 3'000'000);
}

TEST(Process, AMissingProgramIsNamed) {
  EXPECT_EQ(message_of<NotFound>([] { run_process({"no-such-program-1"}); }),
            "no-such-program-1: there is no such program");
}

TEST(Process, AMissingFolderIsNamed) {
  EXPECT_EQ(message_of<NotFound>([] { run_process({"true"}, {.folder = "/no/folder"}); }),
            "/no/folder: cannot run true there: No such file or directory");
}

TEST(Process, IsEndedAtTheDeadline) {
  const ProcessOptions options{.deadline = std::chrono::milliseconds(100)};
  EXPECT_EQ(message_of<IoError>([&] {
              run_process({"sleep", "1000"}, options);
            }),
            "sleep: was not done after 0.1 s");
}

// A process that ended may wait for whoever took it over.
bool is_running(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}

TEST(Process, WhatItStartedIsEndedWithItAtTheDeadline) {
  const testing::TemporaryFolder folder("process");
  const ProcessOptions options{.folder = folder.path(), .deadline = std::chrono::seconds(2)};
  EXPECT_THROW(run_process({"sh", "-c", "sleep 1000 & echo $! > child; wait"}, options), IoError);
  std::string child;
  std::ifstream(folder.path() + "/child") >> child;
  ASSERT_FALSE(child.empty());
  for (int i = 0; i < 1000 && is_running(child); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_running(child));
}

TEST(Process, WhatWaitingThrowsEndsIt) {
  const ProcessOptions options{.waiting = [] { throw InvalidArgument("enough"); }};
  EXPECT_EQ(message_of([&] { run_process({"sleep", "1000"}, options); }), "enough");
}

}  // namespace
}  // namespace lockstep
