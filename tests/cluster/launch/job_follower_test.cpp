// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/job_follower.h"

#include <gtest/gtest.h>

#include "lockstep/cluster/membership/memory_store.h"
#include "tests/cluster/membership/troubled_store.h"

namespace lockstep::cluster::detail {
namespace {

using namespace std::chrono_literals;
using State = JobFollower::State;

comm::Deadline soon() { return comm::Clock::now() + 30s; }

// A launcher that has lost its lease, and the member that has it.
class JobFollowerTest : public ::testing::Test {
 protected:
  void elect(const JobRecord& record) {
    leadership_ = Leadership::campaign(job_, {"127.0.0.1", 7}, 1h, soon());
    leadership_->write(record);
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::shared_ptr<testing::TroubledStore> seen_ = std::make_shared<testing::TroubledStore>(store_);
  StoredJob job_{store_, "job"};
  std::unique_ptr<Leadership> leadership_;
  bool answers_ = false, hears_ = true;
  std::vector<std::int64_t> dismissed_;
  JobFollower follower_{StoredJob(seen_, "job"),
                        60s,
                        {[this](const comm::Endpoint& /*leader*/) { return answers_; },
                         [this](const comm::Endpoint& /*leader*/, std::int64_t id) {
                           if (!hears_) throw comm::PeerLost("gone", -1, "", "rendezvous");
                           dismissed_.push_back(id);
                         }}};
  const comm::Deadline begin_ = comm::Clock::now();
};

TEST_F(JobFollowerTest, CutOffFromTheStoreAloneTheJobGoesOnAsLongAsItsWorkersDo) {
  elect({.membership = {.generation = 2}});
  EXPECT_EQ(follower_.look(begin_, true).record->membership.generation, 2);
  seen_->is_cut = true;
  const auto cut = follower_.look(begin_ + 1s, true);
  EXPECT_EQ(cut.state, State::goes_on);
  EXPECT_EQ(cut.line,
            "the launcher does not reach the store, and goes on as long as the workers do: store: "
            "cut off");
  EXPECT_EQ(follower_.look(begin_ + 2h, true).state, State::goes_on);
  EXPECT_EQ(follower_.look(begin_ + 3h, true).line, "");  // it was said
  answers_ = true;
  EXPECT_EQ(follower_.look(begin_ + 4h, false).state, State::goes_on);
  seen_->is_cut = false;
  const auto back = follower_.look(begin_ + 5h, false);
  EXPECT_EQ(back.line, "the launcher reaches the store again");
  EXPECT_EQ(back.state, State::goes_on);
}

TEST_F(JobFollowerTest, WithNothingLeftToHearOfItTheEndIsNotKnown) {
  elect({.membership = {.generation = 2}});
  follower_.look(begin_, true);
  seen_->is_cut = true;
  EXPECT_EQ(follower_.look(begin_ + 59s, false).state, State::goes_on);
  EXPECT_EQ(follower_.look(begin_ + 61s, false).state, State::unknown);
}

TEST_F(JobFollowerTest, AJobThatNobodyCoordinatesFails) {
  elect({.membership = {.generation = 2}});
  follower_.look(begin_, true);
  leadership_.reset();
  EXPECT_EQ(follower_.look(begin_ + 59s, true).state, State::goes_on);
  EXPECT_EQ(follower_.look(begin_ + 61s, true).state, State::failed);
}

TEST_F(JobFollowerTest, TheRecordSaysThatItIsOver) {
  elect({.is_over = true, .teller = 0});
  leadership_.reset();
  EXPECT_EQ(follower_.look(begin_ + 2h, false).state, State::over);
}

TEST_F(JobFollowerTest, WhoIsToLeaveIsSaidUntilACoordinatorHasRecordedIt) {
  follower_.look(begin_, true);
  follower_.release({3}, begin_);  // there is no coordinator
  elect({.membership = {.generation = 2}});
  hears_ = false;
  follower_.look(begin_ + 1s, true);
  follower_.release({3}, begin_ + 1s);  // it goes meanwhile
  EXPECT_TRUE(dismissed_.empty());
  hears_ = true;
  follower_.release({3}, begin_ + 3s);
  follower_.release({3}, begin_ + 5s);  // it may have gone before it was kept
  EXPECT_EQ(dismissed_, (std::vector<std::int64_t>{3, 3}));
  leadership_->write({.membership = {.generation = 2}, .leaving = {3}});
  follower_.look(begin_ + 6s, true);
  follower_.release({3}, begin_ + 7s);
  EXPECT_EQ(dismissed_.size(), 2U);
}

}  // namespace
}  // namespace lockstep::cluster::detail
