// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "tests/cluster/membership/rendezvous_parts.h"
#include "tests/message.h"

// Workers that are asked for, leave and come to a job that is under way, by what the coordinator is
// told.
namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::coordinator_options;
using testing::member_of;
using testing::message_of;

const std::string kSecret = "open sesame";

class SurvivingJob {
 public:
  explicit SurvivingJob(int workers) : coordinator_(options_of(workers)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        coordinator_.run(stop);
      } catch (const Error&) {
        return;
      }
    });
    members.resize(static_cast<std::size_t>(workers));
    std::vector<std::jthread> joining;
    for (int rank = 0; rank < workers; ++rank)
      joining.emplace_back([this, rank, workers] {
        RendezvousOptions own = member_of(coordinator_, Role::worker, rank, workers, 0);
        own.survives = true;
        members[static_cast<std::size_t>(rank)] = std::make_unique<Rendezvous>(own);
      });
    joining.clear();
    for (auto& member : members) EXPECT_FALSE(member->poll_change());
    await([&] { return coordinator_.survives_lost_workers(); });
  }

  comm::Endpoint endpoint() const { return coordinator_.endpoint(); }
  Coordinator& coordinator() { return coordinator_; }

  template <class Condition>
  static void await(const Condition& is_so) {
    const auto end = comm::Clock::now() + 30s;
    while (!is_so() && comm::Clock::now() < end) std::this_thread::sleep_for(2ms);
    EXPECT_TRUE(is_so()) << "it does not happen";
  }

  // What the member is to come out of its generation for.
  static ChangeWanted await_change(Rendezvous& member) {
    std::optional<ChangeWanted> change;
    await([&] { return change || (change = member.poll_change()); });
    return change.value_or(ChangeWanted{});
  }

  std::vector<std::string> kinds() {
    const std::lock_guard lock(mutex_);
    return kinds_;
  }

 private:
  CoordinatorOptions options_of(int workers) {
    CoordinatorOptions options = coordinator_options(workers);
    options.max_workers = 4;
    options.new_id = [this] { return next_id_++; };
    options.on_event = [this](const MembershipEvent& event) {
      const std::lock_guard lock(mutex_);
      kinds_.push_back(event.kind);
    };
    return options;
  }

  std::atomic<std::int64_t> next_id_ = 17;
  std::mutex mutex_;
  std::vector<std::string> kinds_;
  Coordinator coordinator_;
  std::jthread thread_;

 public:
  std::vector<std::unique_ptr<Rendezvous>> members;
};

TEST(ChangingWorkers, FewerAreWantedAndTheLastLeaves) {
  SurvivingJob job(2);
  resize_job(job.endpoint(), kSecret, 1, 10s);
  for (auto& member : job.members) EXPECT_FALSE(SurvivingJob::await_change(*member).is_urgent);
  std::jthread last([&] { EXPECT_FALSE(job.members[1]->report(Standing{.step = 3})); });
  EXPECT_TRUE(job.members[0]->report(Standing{.step = 3}));
  EXPECT_EQ(job.members[0]->membership().count(Role::worker), 1);
  const std::vector<std::string> kinds = job.kinds();
  EXPECT_EQ(kinds.at(0), "resized");
  EXPECT_NE(std::find(kinds.begin(), kinds.end(), "left"), kinds.end());
}

TEST(ChangingWorkers, WhatCannotBeIsRefusedAndTheJobGoesOn) {
  SurvivingJob job(2);
  EXPECT_EQ(message_of<InvalidArgument>([&] { resize_job(job.endpoint(), kSecret, 5, 10s); }),
            "scale: 5 workers, expected 1 to 4 (--max-workers, and a shard for each)");
  EXPECT_EQ(message_of<InvalidArgument>([&] { dismiss_worker(job.endpoint(), kSecret, 9, 10s); }),
            "leave: there is no worker 9; there are 0, 1");
  for (auto& member : job.members) EXPECT_FALSE(member->poll_change());
}

TEST(ChangingWorkers, OfAJobThatDoesNotSurviveAreRefused) {
  Coordinator coordinator(coordinator_options(1));
  std::jthread server([&](const std::stop_token& stop) { coordinator.run(stop); });
  Rendezvous member(member_of(coordinator, 1));
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { resize_job(coordinator.endpoint(), kSecret, 2, 10s); }),
      "scale: the workers of this job are fixed: it ends with the first that is lost "
      "(--fail-fast, --shard-state, --pipeline)");
}

TEST(ChangingWorkers, OneThatComesByItselfTakesTheOthersConfigurationAndAFreeNumber) {
  SurvivingJob job(2);
  RendezvousOptions own = member_of(job.coordinator(), Role::worker, -1, 2, 0);
  own.configuration = "";
  own.survives = own.is_late = true;
  Rendezvous guest(own);
  EXPECT_EQ(guest.id(), 17);
  std::jthread reports([&] { EXPECT_TRUE(guest.report(Standing{.has_state = false})); });
  for (auto& member : job.members) SurvivingJob::await_change(*member);
  std::jthread second([&] { EXPECT_TRUE(job.members[1]->report(Standing{.step = 1})); });
  EXPECT_TRUE(job.members[0]->report(Standing{.step = 1}));
  EXPECT_EQ(job.members[0]->membership().members.back().id, 17);
}

TEST(ChangingWorkers, TwoThatAreStartedAtOnceKeepTheirNumbersWhoeverComesFirst) {
  SurvivingJob job(2);
  const auto join = [&](int id) {
    RendezvousOptions own = member_of(job.coordinator(), Role::worker, id, 2, 0);
    own.survives = own.is_late = true;
    return std::make_unique<Rendezvous>(own);
  };
  const auto later = join(3), sooner = join(2), again = join(3);
  EXPECT_EQ(later->id(), 3);
  EXPECT_EQ(sooner->id(), 2);
  EXPECT_EQ(again->id(), 4);
}

TEST(ChangingWorkers, OneThatIsToGoBeforeItHasComeLeavesWhenItHas) {
  SurvivingJob job(2);
  job.coordinator().release(7);
  job.coordinator().release(8);
  job.coordinator().keep(8);
  const auto comes = [&](int id) {
    RendezvousOptions own = member_of(job.coordinator(), Role::worker, id, 2, 0);
    own.survives = own.is_late = true;
    return std::make_unique<Rendezvous>(own);
  };
  const auto leaves = comes(7), stays = comes(8);
  std::jthread first([&] { EXPECT_FALSE(leaves->report(Standing{.has_state = false})); });
  std::jthread reports([&] { EXPECT_TRUE(stays->report(Standing{.has_state = false})); });
  for (auto& member : job.members) SurvivingJob::await_change(*member);
  std::jthread second([&] { EXPECT_TRUE(job.members[1]->report(Standing{.step = 1})); });
  EXPECT_TRUE(job.members[0]->report(Standing{.step = 1}));
  EXPECT_EQ(job.members[0]->membership().members.back().id, 8);
}

// Its connection may be held open by a child of its own, or its end be on its way.
TEST(ChangingWorkers, AProcessThatHasEndedIsLostWhateverItsConnectionSays) {
  SurvivingJob job(2);
  job.coordinator().note_ended(1);
  EXPECT_TRUE(SurvivingJob::await_change(*job.members[0]).is_urgent);
  EXPECT_TRUE(job.members[0]->report(Standing{.step = 1}));
  EXPECT_EQ(job.members[0]->membership().count(Role::worker), 1);
}

TEST(ChangingWorkers, WhoHoldsUpTheOthersIsPutOut) {
  SurvivingJob job(2);
  job.members[0]->expel(1, "nothing has moved for 5.0 s");
  EXPECT_TRUE(SurvivingJob::await_change(*job.members[0]).is_urgent);
  EXPECT_TRUE(job.members[0]->report(Standing{.step = 1}));
  EXPECT_EQ(job.kinds().at(0), "expelled");
}

}  // namespace
}  // namespace lockstep::cluster
