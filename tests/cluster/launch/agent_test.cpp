// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/agent.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/base/process.h"
#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/cluster/launch/detail/frames.h"
#include "lockstep/comm/socket.h"
#include "tests/temporary_folder.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using comm::Clock;
using detail::Frame;
using testing::TemporaryFolder;

// An agent of another machine, as its launcher sees it.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_ = comm::Socket(ends[0]);
    comm::Socket theirs(ends[1]);
    AgentOptions options;
    options.input = options.output = theirs.fd();
    options.timeout = 1ms;  // as short as it can be
    agent_ = Process::fork(
        [&] {
          ours_.close();
          return run_agent(options);
        },
        {.own_group = true, .death_signal = SIGKILL});
  }

  // With all that it has started.
  void TearDown() override {
    agent_.signal(SIGTERM);
    ::shutdown(ours_.fd(), SHUT_WR);
    for (const auto end = Clock::now() + 30s; !agent_.status() && Clock::now() < end;)
      next(Clock::now() + 10ms);
    EXPECT_TRUE(agent_.status());
  }

  template <class T>
  void send(const T& frame) {
    const std::string bytes = detail::encode(frame);
    EXPECT_EQ(::send(ours_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // Until the agent waits for the launcher no more.
  static void be_silent() { std::this_thread::sleep_for(detail::heartbeat_deadline(1ms) + 2s); }

  // What it says next, if it says anything by then.
  std::optional<Frame> next(Clock::time_point until) {
    while (true) {
      is_marked_ = is_marked_ || reader_.skip_to_mark();
      if (auto frame = is_marked_ ? reader_.next() : std::nullopt) return frame;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd input{ours_.fd(), POLLIN, 0};
      if (left <= 0 || ::poll(&input, 1, static_cast<int>(left)) <= 0) return {};
      char block[4096];
      const ssize_t got = ::read(ours_.fd(), block, sizeof block);
      if (got <= 0) return {};
      reader_.append({block, static_cast<std::size_t>(got)});
    }
  }

  template <class T>
  std::optional<T> next_of(Clock::duration longest) {
    const auto until = Clock::now() + longest;
    while (const auto frame = next(until))
      if (frame->is<T>()) return frame->as<T>();
    return {};
  }

  std::optional<detail::ProcessEnd> end_of_worker_that(const std::string& does);

  comm::Socket ours_;
  detail::FrameReader reader_;
  bool is_marked_ = false;
  Process agent_;
};

// It was stopped, or the network was cut for a while. What workers print meanwhile nobody waits
// for; what has become of them the launcher hears.
TEST_F(AgentTest, HearsALauncherAgainThatWasSilentForLong) {
  ASSERT_TRUE(next_of<detail::AgentHello>(30s));
  send(detail::AgentTask{
      .command = {"/bin/sh", "-c",
                  "[ $NUMBER = 1 ] && exec sleep 60; while :; do echo 12345; done"},
      .processes = {{1, {"NUMBER=1"}}, {2, {"NUMBER=2"}}},
      .slots = 2,
      .outlives_launcher = true});
  ASSERT_TRUE(next_of<detail::ProcessOutput>(30s));
  // The connection is full of what is not read meanwhile.
  be_silent();
  send(detail::Alive{});
  send(detail::KillProcess{1});
  const auto end = next_of<detail::ProcessEnd>(30s);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->id, 1);
  EXPECT_EQ(end->signal, SIGKILL);
}

// A worker that does this until the launcher has been silent for long, and ends with 3 then.
std::optional<detail::ProcessEnd> AgentTest::end_of_worker_that(const std::string& does) {
  EXPECT_TRUE(next_of<detail::AgentHello>(30s));
  const TemporaryFolder folder;
  const std::string gate = folder / "gate", pid = folder / "pid";
  send(detail::AgentTask{.command = {"/bin/sh", "-c",
                                     "echo $$ > " + pid + "; while [ ! -e " + gate + " ]; do " +
                                         does + "; done; exit 3"},
                         .processes = {{1, {}}},
                         .slots = 1,
                         .outlives_launcher = true});
  be_silent();
  const int worker = std::stoi(read_file(pid));
  write_file(gate, "");
  // Until the agent knows that it has ended.
  for (const auto until = Clock::now() + 30s; ::kill(worker, 0) == 0 && Clock::now() < until;)
    std::this_thread::yield();
  return next_of<detail::ProcessEnd>(30s);
}

TEST_F(AgentTest, LeavesWordHowItsWorkersEndedWhileTheLauncherWasSilent) {
  const auto end = end_of_worker_that("sleep 0.05");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, 3);
}

// The connection is full of what it has printed.
TEST_F(AgentTest, LeavesWordWhenTheLauncherMakesRoomForIt) {
  const auto end = end_of_worker_that("echo 12345");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status, 3);
}

}  // namespace
}  // namespace lockstep::cluster
