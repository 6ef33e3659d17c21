// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
            "/no/folder: there is no such folder");
}

TEST(Process, AProgramThatMayNotRunIsNamed) {
  EXPECT_EQ(message_of<IoError>([] { run_process({"/etc/passwd"}); }),
            "/etc/passwd: cannot be started: Permission denied");
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

constexpr std::chrono::seconds kLong{60};

// What a process wrote to `fd`.
std::string text_of(int fd) {
  char block[4096];
  const ssize_t count = ::pread(fd, block, sizeof block, 0);
  return {block, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

int memory_file() { return ::memfd_create("process_test", MFD_CLOEXEC); }

TEST(Process, HasItsVariablesFolderAndStreams) {
  ::setenv("LOCKSTEP_TEST_OURS", "ours", 1);
  const int output = memory_file();
  StartOptions options;
  options.folder = "/";
  options.environment = {"LOCKSTEP_TEST_A=1", "LOCKSTEP_TEST_B=x=y", "LOCKSTEP_TEST_A=2"};
  options.output = options.errors = output;
  options.input = kNoStream;
  const char* script = "cat; pwd; echo $LOCKSTEP_TEST_OURS $LOCKSTEP_TEST_A $LOCKSTEP_TEST_B >&2";
  Process process = Process::start({"sh", "-c", script}, options);
  EXPECT_EQ(process.wait(kLong).value().shell(), 0);
  EXPECT_EQ(text_of(output), "/\nours 2 x=y\n");
  ::close(output);
  ::unsetenv("LOCKSTEP_TEST_OURS");
}

TEST(Process, IsFoundByThePathOfItsOwnVariables) {
  const testing::TemporaryFolder folder("process");
  const std::string program = folder.path() + "/lockstep-test-program";
  std::ofstream(program) << "#!/bin/sh\nexit 7\n";
  ::chmod(program.c_str(), 0755);
  StartOptions options;
  options.environment = {"PATH=" + folder.path() + ":/usr/bin:/bin"};
  EXPECT_EQ(Process::start({"lockstep-test-program"}, options).wait(kLong).value().code, 7);
}

// In a process of its own, whose standard output and error are files of ours.
TEST(Process, StreamsMayChangePlaces) {
  const int first = memory_file(), second = memory_file();
  Process swapping = Process::fork([&] {
    ::dup2(first, 1);
    ::dup2(second, 2);
    const StartOptions options{.output = 2, .errors = 1};
    return Process::start({"sh", "-c", "echo out; echo err >&2"}, options).wait(kLong)->shell();
  });
  EXPECT_EQ(swapping.wait(kLong).value().shell(), 0);
  EXPECT_EQ(text_of(first), "err\n");
  EXPECT_EQ(text_of(second), "out\n");
  ::close(first);
  ::close(second);
}

TEST(Process, IgnoresAndBlocksTheSignalsThatItIsToldTo) {
  const std::vector<std::string> command{"sh", "-c", "kill -TERM $$; exit 5"};
  EXPECT_EQ(Process::start(command).wait(kLong).value().signal, SIGTERM);
  EXPECT_EQ(Process::start(command, {.ignored = {SIGTERM}}).wait(kLong).value().code, 5);
  StartOptions blocking;
  sigaddset(&blocking.blocked, SIGTERM);
  EXPECT_EQ(Process::start(command, blocking).wait(kLong).value().code, 5);
}

TEST(Process, RunsUntilItIsToldToEnd) {
  Process process = Process::start({"sleep", "1000"});
  EXPECT_FALSE(process.status());
  EXPECT_FALSE(process.wait(std::chrono::milliseconds(0)));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(kLong).value().signal, SIGTERM);
  EXPECT_EQ(process.status().value().shell(), 128 + SIGTERM);
  process.signal(SIGKILL);  // whoever has its number now does not hear it
}

TEST(Process, EndsWithItsObject) {
  pid_t pid = -1;
  {
    const Process process = Process::start({"sleep", "1000"});
    pid = process.pid();
    EXPECT_TRUE(is_running(std::to_string(pid)));
  }
  EXPECT_FALSE(is_running(std::to_string(pid)));
}

TEST(Process, EndsWithTheThreadThatStartedItWhereThatIsAskedFor) {
  Process process;
  std::thread([&] {
    process = Process::start({"sleep", "1000"}, {.death_signal = SIGUSR1});
  }).join();
  EXPECT_EQ(process.wait(kLong).value().signal, SIGUSR1);
}

TEST(Process, AForkedOneHasTheStatusOfItsWork) {
  EXPECT_EQ(Process::fork([] { return 9; }).wait(kLong).value().code, 9);
  Process throwing = Process::fork([]() -> int { throw InvalidArgument("no"); });
  EXPECT_EQ(throwing.wait(kLong).value().code, 1);
  Process killed = Process::fork([] { return ::raise(SIGKILL); });
  EXPECT_EQ(killed.wait(kLong).value().signal, SIGKILL);
}

TEST(Process, AForkedOneMayHaveOneDescriptorAlone) {
  const int file = memory_file();
  ASSERT_EQ(::write(file, "!", 1), 1);
  const auto work = [&] {
    char byte = 0;
    const bool has_file = ::pread(STDIN_FILENO, &byte, 1, 0) == 1 && byte == '!';
    return has_file && ::fcntl(1, F_GETFD) < 0 && ::fcntl(file, F_GETFD) < 0 ? 0 : 1;
  };
  EXPECT_EQ(Process::fork(work, {.only_descriptor = file}).wait(kLong).value().shell(), 0);
  ::close(file);
}

}  // namespace
}  // namespace lockstep
