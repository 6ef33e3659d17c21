// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process_mark.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "lockstep/base/process.h"

namespace lockstep {
namespace {

TEST(ProcessMark, IsReadBackFromItsText) {
  const ProcessMark own = own_mark();
  EXPECT_EQ(own.pid, ::getpid());
  EXPECT_GT(own.start, 0);
  EXPECT_EQ(parse_mark(to_string(own)), own);
  EXPECT_EQ(parse_mark("nonsense").pid, 0);
  EXPECT_EQ(parse_mark("").pid, 0);
}

TEST(ProcessMark, TellsWhetherTheProcessIsThere) {
  EXPECT_EQ(look_at_process(own_mark()), ProcessState::running);
  ProcessMark another = own_mark();
  another.start += 1;  // the number is somebody else's by now
  EXPECT_EQ(look_at_process(another), ProcessState::gone);
  another.host += "-not";
  EXPECT_EQ(look_at_process(another), ProcessState::elsewhere);
}

TEST(ProcessMark, OneThatIsStoppedIsNotGone) {
  Process child = Process::start({"sleep", "1000"});
  const ProcessMark mark = mark_of(child.pid());
  EXPECT_EQ(look_at_process(mark), ProcessState::running);
  child.signal(SIGSTOP);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (look_at_process(mark) == ProcessState::running && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(look_at_process(mark), ProcessState::stopped);
  child.end();
  EXPECT_EQ(look_at_process(mark), ProcessState::gone);
}

}  // namespace
}  // namespace lockstep
