// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/job_coordinator.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "lockstep/cluster/membership/memory_store.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "tests/cluster/membership/troubled_store.h"

namespace lockstep::cluster::detail {
namespace {

using namespace std::chrono_literals;

bool await(const std::function<bool()>& condition) {
  for (const auto end = comm::Clock::now() + 60s; !condition() && comm::Clock::now() < end;)
    std::this_thread::sleep_for(5ms);
  return condition();
}

class JobCoordinatorTest : public ::testing::Test {
 protected:
  static CoordinatorOptions options() {
    CoordinatorOptions options;
    options.secret = "open sesame";
    options.workers = 2;
    options.heartbeat = 2s;  // and so long is its lease
    return options;
  }

  RendezvousOptions member(int rank) {
    RendezvousOptions own;
    own.coordinator = launcher_.endpoint();
    own.secret = "open sesame";
    own.rank = rank;
    own.workers = 2;
    own.survives = true;
    own.store = store_;
    own.job = "job";
    return own;
  }

  // Comes out of its step whenever it is to, until the test lets it finish.
  std::string work(int rank) {
    Rendezvous me(member(rank));
    me.poll_change();
    me.query(30s);
    ++listening_;
    while (!finishes_) {
      if (me.poll_change() && !me.report({.step = 1})) return "left";
      std::this_thread::sleep_for(1ms);
    }
    if (me.report({.is_finished = true})) return "goes on";
    me.tell();
    return "done";
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::shared_ptr<testing::TroubledStore> seen_ = std::make_shared<testing::TroubledStore>(store_);
  const StoredJob job_{store_, "job"};
  JobCoordinator launcher_{options(), 2, StoredJob(seen_, "job"), "127.0.0.1"};
  std::atomic<int> listening_ = 0;
  std::atomic<bool> finishes_ = false;
};

TEST_F(JobCoordinatorTest, CutOffFromTheStoreItFollowsTheMemberThatTakesItsPlace) {
  auto first = std::async(std::launch::async, [this] { return work(0); });
  auto second = std::async(std::launch::async, [this] { return work(1); });
  ASSERT_TRUE(await([this] { return listening_ == 2; }));
  const Leader before = *job_.leader(comm::Clock::now() + 30s);
  seen_->is_cut = true;
  // On a machine that is slow it may have lost its place before.
  ASSERT_TRUE(await([&] {
    const auto now = job_.leader(comm::Clock::now() + 30s);
    return now && (!(*now == before) ||
                   comm::to_string(now->endpoint) != comm::to_string(launcher_.endpoint()));
  }));
  launcher_.release(1);
  std::string said;
  ASSERT_TRUE(await([&] {
    for (const std::string& line : launcher_.take_lines()) said += line + "\n";
    return said.find("the launcher does not reach the store") != std::string::npos;
  })) << said;
  EXPECT_FALSE(launcher_.has_failed());
  EXPECT_TRUE(launcher_.survives_lost_workers());
  seen_->is_cut = false;
  EXPECT_EQ(second.get(), "left");
  finishes_ = true;
  EXPECT_EQ(first.get(), "done");
  EXPECT_TRUE(await([this] { return launcher_.is_run_done(); }));
  EXPECT_FALSE(launcher_.has_failed());
}

}  // namespace
}  // namespace lockstep::cluster::detail
