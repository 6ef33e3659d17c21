// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/children.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/cluster/launch/detail/orphans.h"

namespace lockstep::cluster::detail {
namespace {

using std::chrono::milliseconds;
using Clock = comm::Clock;

constexpr milliseconds kDeadline{300};
constexpr std::chrono::seconds kLongEnough{30};

// A process that sleeps, and what is told of its end.
class StoppedChildTest : public ::testing::Test {
 protected:
  StoppedChildTest() { children_.start({.command = {"/bin/sh", "-c", "echo $$; exec sleep 60"}}); }

  void SetUp() override {
    ASSERT_TRUE(look_until([this] { return words_.ends_with('\n'); }));
    pid_ = std::stoi(words_);
  }
  // Looks after the child meanwhile.
  bool look_until(const std::function<bool()>& condition) {
    const auto deadline = Clock::now() + kLongEnough;
    while (!condition() && Clock::now() < deadline) {
      look();
      std::this_thread::yield();
    }
    return condition();
  }
  void look() {
    children_.advance();
    children_.beat();
  }
  // Whoever looks at it finds it stopped, in another stop each time.
  void go_on_and_stop() {
    ::kill(pid_, SIGCONT);
    ASSERT_TRUE(look_until([this] { return !is_stopped(pid_); }));
    ::kill(pid_, SIGSTOP);
    ASSERT_TRUE(look_until([this] { return is_stopped(pid_); }));
  }

  std::string words_;
  std::optional<ChildEnd> end_;
  Children children_{{[this](std::int64_t, int, std::string_view bytes) { words_ += bytes; },
                      [this](const ChildEnd& end) { end_ = end; }},
                     kDeadline};
  pid_t pid_ = -1;
};

TEST_F(StoppedChildTest, OneThatGoesOnBetweenLooksStays) {
  ::kill(pid_, SIGSTOP);
  for (const auto end = Clock::now() + 5 * kDeadline; Clock::now() < end;) {
    go_on_and_stop();
    children_.end_long_stopped();
  }
  look();
  EXPECT_FALSE(end_) << end_->by_us;
  EXPECT_TRUE(children_.are_running());
}

TEST_F(StoppedChildTest, OneThatDoesNotGoOnIsEnded) {
  go_on_and_stop();
  const auto begin = Clock::now();
  ASSERT_TRUE(look_until([this] {
    children_.end_long_stopped();
    return end_.has_value();
  }));
  EXPECT_GE(Clock::now() - begin, kDeadline);
  EXPECT_EQ(end_->signal, SIGKILL);
  EXPECT_EQ(end_->by_us, "somebody stopped it (SIGSTOP), and it did not go on for 0.3 s");
}

}  // namespace
}  // namespace lockstep::cluster::detail
