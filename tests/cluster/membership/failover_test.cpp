// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/detail/conversation.h"
#include "lockstep/cluster/membership/memory_store.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/cluster/membership/stored_job.h"
#include "tests/cluster/membership/end_of.h"
#include "tests/cluster/membership/troubled_store.h"

// The coordinator of a job with a store goes, and a member takes its place.
namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::end_of;

class Failover : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 3;

  Failover() {
    CoordinatorOptions options;
    options.secret = "open sesame";
    options.workers = kWorkers;
    options.timeout = 30s;
    options.patience = 30s;
    options.heartbeat = 20s;
    options.on_event = [this](const MembershipEvent& event) {
      told_ += event.kind;
      if (breaks_) throw std::logic_error("unforeseen");
    };
    coordinator_ = std::make_unique<Coordinator>(options);
    coordinator_->lead(
        Leadership::campaign({troubled_, "job"}, coordinator_->endpoint(), 30s, testing::soon()));
    running_ = std::jthread([this](const std::stop_token& stop) {
      try {
        coordinator_->run(stop);
        end_ = "done";
      } catch (const Error& error) {
        end_ = error.kind();
      } catch (const std::exception& error) {
        end_ = error.what();
      }
    });
  }

  // As a process that ends does, and gives its lease back.
  void end_coordinator() {
    running_ = {};
    coordinator_.reset();
  }

  RendezvousOptions member(int rank) const {
    RendezvousOptions options;
    options.coordinator = coordinator_->endpoint();
    options.secret = "open sesame";
    options.rank = rank;
    options.workers = kWorkers;
    options.version = "1.0";
    options.survives = true;
    options.timeout = 30s;
    options.store = store_;
    options.job = "job";
    return options;
  }

  // Until somebody wants this worker to come out of its step.
  static std::string await_change(Rendezvous& member) {
    for (const auto end = testing::soon(); comm::Clock::now() < end;
         std::this_thread::sleep_for(1ms))
      if (const auto change = member.poll_change()) return change->is_urgent ? "urgent" : "polite";
    return "nothing";
  }

  // A worker that comes out of as many generations as it is told to, and finishes.
  std::string work(int rank, std::atomic<int>& listening, int changes) {
    Rendezvous me(member(rank));
    me.poll_change();
    me.query(30s);
    if (rank == 0) me.put("found", "here");
    ++listening;
    std::string story;
    for (int i = 0; i < changes; ++i) {
      story += await_change(me);
      if (!me.report({.step = 5})) return story + " dismissed";
      story += " " + std::to_string(me.membership().generation) + ":";
      for (const std::string& one : me.all_gather(std::to_string(me.id()), 30s)) story += one;
      story += " " + me.get("found", 30s).bytes;
      me.poll_change();
      me.query(30s);
      ++listening;
    }
    if (me.report({.is_finished = true})) return story + " goes on";
    story += me.is_run_done() ? " done" : " left";
    if (me.rank() == 0) me.tell();
    return story;
  }

  static void await(const std::atomic<int>& count, int wanted) {
    for (const auto end = testing::soon(); count < wanted && comm::Clock::now() < end;)
      std::this_thread::sleep_for(1ms);
    ASSERT_EQ(count, wanted);
  }

  // All workers, each of which comes out of so many generations.
  std::vector<std::future<std::string>> start_workers(std::atomic<int>& listening, int changes) {
    std::vector<std::future<std::string>> members;
    for (int rank = 0; rank < kWorkers; ++rank)
      members.push_back(std::async(std::launch::async, [this, rank, &listening, changes] {
        return work(rank, listening, changes);
      }));
    await(listening, kWorkers);
    return members;
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  // The same, as the first coordinator sees it.
  std::shared_ptr<testing::TroubledStore> troubled_ =
      std::make_shared<testing::TroubledStore>(store_);
  StoredJob job_{store_, "job"};
  std::atomic<bool> breaks_ = false;
  std::unique_ptr<Coordinator> coordinator_;
  std::string end_, told_;
  std::jthread running_;
};

TEST_F(Failover, AMemberTakesTheCoordinatorsPlaceAndTheJobGoesOn) {
  std::atomic<int> listening = 0;
  auto members = start_workers(listening, 1);
  const Leader first = *job_.leader(testing::soon());
  end_coordinator();
  for (auto& one : members) EXPECT_EQ(one.get(), "urgent 2:012 here done");
  EXPECT_TRUE(job_.record(testing::soon())->is_run_done());
  EXPECT_EQ(job_.record(testing::soon())->membership.generation, 2);
  EXPECT_FALSE(job_.leader(testing::soon()) == first);
}

// It was stopped while its lease ran out: it wakes up in a job that has another coordinator.
TEST_F(Failover, ACoordinatorThatHasLostItsLeaseDecidesNothingMore) {
  std::atomic<int> listening = 0;
  auto members = start_workers(listening, 1);
  const StoreLease lease = store_->grant(60s, testing::soon());
  const comm::Socket nobody = comm::listen_on({"127.0.0.1", 0});
  store_->commit({.puts = {{job_.name_of("leader"),
                            to_string(comm::local_endpoint(nobody)) + " other", lease.id}}},
                 testing::soon());
  // It tries to decide something, and does not say that it has.
  EXPECT_THROW(resize_job(coordinator_->endpoint(), "open sesame", 2, 30s), comm::PeerLost);
  running_.join();
  EXPECT_EQ(end_, "Deposed");
  EXPECT_EQ(told_, "");                    // what was not to be is not told
  store_->revoke(lease, testing::soon());  // the other one is gone too
  for (auto& one : members) EXPECT_EQ(one.get(), "urgent 2:012 here done");
  const std::optional<JobRecord> last = job_.record(testing::soon());
  ASSERT_TRUE(last);
  for (const MembershipEvent& event : last->events) EXPECT_NE(event.kind, "resized");
}

// Its object is still there, and so is the process that has it.
TEST_F(Failover, ACoordinatorThatEndsByAnErrorOfItsOwnLetsAnotherOneTakeItsPlace) {
  std::atomic<int> listening = 0;
  auto members = start_workers(listening, 1);
  breaks_ = true;
  EXPECT_THROW(resize_job(coordinator_->endpoint(), "open sesame", kWorkers, 30s), comm::PeerLost);
  running_.join();
  EXPECT_EQ(end_, "unforeseen");
  for (auto& one : members) EXPECT_EQ(one.get(), "urgent 2:012 here done");
}

TEST_F(Failover, AnIdIsKeptBeforeAnybodyHearsIt) {
  std::atomic<int> listening = 0;
  auto members = start_workers(listening, 1);
  {
    RendezvousOptions late = member(-1);
    late.is_late = true;
    const Rendezvous guest(late);
    EXPECT_EQ(guest.id(), kWorkers);
    EXPECT_EQ(job_.record(testing::soon())->used_ids, (std::vector<std::int64_t>{0, 1, 2, 3}));
  }
  end_coordinator();
  for (auto& one : members) EXPECT_EQ(one.get(), "urgent 2:012 here done");
}

// It decides nothing before the store has it, which may take longer than an answer does otherwise.
TEST_F(Failover, ACoordinatorWhoseStoreIsSlowIsWaitedFor) {
  std::vector<std::unique_ptr<Rendezvous>> members(kWorkers);
  {
    std::vector<std::jthread> joining;
    for (int rank = 0; rank < kWorkers; ++rank)
      joining.emplace_back([&members, rank, own = member(rank)] {
        members[static_cast<std::size_t>(rank)] = std::make_unique<Rendezvous>(own);
      });
  }
  for (auto& one : members) one->poll_change(), one->query(30s);
  troubled_->holds_changes = true;
  auto departs = std::async(std::launch::async, [&] { members[2]->depart(); });
  for (const auto end = testing::soon(); troubled_->held == 0 && comm::Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(departs.wait_for(2500ms), std::future_status::timeout);
  EXPECT_THROW(members[1]->query(1ms), comm::Timeout);
  EXPECT_THROW(members[1]->put("name", "bytes", 1ms), comm::Timeout);
  troubled_->holds_changes = false;
  EXPECT_NO_THROW(departs.get());
  EXPECT_EQ(members[1]->query(30s).membership.generation, 1);
  EXPECT_EQ(members[1]->get("name", 30s).bytes, "bytes");
  EXPECT_EQ(await_change(*members[1]), "polite");
}

TEST_F(Failover, AProgramThatEndsWithTheFirstLossCannotUseAStore) {
  RendezvousOptions own = member(0);
  own.survives = false;
  try {
    const Rendezvous me(own);
    FAIL();
  } catch (const comm::Refused& error) {
    EXPECT_NE(std::string(error.what()).find("the job has a store (--store), and its program"),
              std::string::npos)
        << error.what();
  }
}

// While the next coordinator was held up, a member has given up its first try to come to it.
TEST(Succession, AMemberMayComeTwiceToTheNextCoordinator) {
  const StoredJob job(std::make_shared<MemoryStore>(), "job");
  Leadership::campaign(job, {"127.0.0.1", 1}, 60s, testing::soon())
      ->write({.membership = {.generation = 3, .members = {{.id = 0}, {.id = 1}}},
               .workers = 2,
               .patience = 30s,
               .heartbeat = 20s});
  CoordinatorOptions own;
  own.secret = "open sesame";
  Coordinator coordinator(own);
  coordinator.lead(Leadership::campaign(job, coordinator.endpoint(), 60s, testing::soon()));
  const std::jthread running([&](const std::stop_token& stop) { coordinator.run(stop); });
  RendezvousOptions options;
  options.coordinator = coordinator.endpoint();
  options.secret = own.secret;
  for (int i = 0; i < 3; ++i) {
    detail::Conversation conversation(options);
    const detail::Rejoin rejoin{.join = {.survives = true}, .id = 0, .generation = 3};
    EXPECT_NO_THROW(conversation.ask<detail::Noted>(rejoin, 30s, "an answer")) << i;
  }
}

TEST_F(Failover, WithoutARecordThereIsNothingToGoOnFrom) {
  std::vector<std::future<std::string>> members;
  std::atomic<int> there = 0;
  for (int rank = 0; rank < kWorkers; ++rank)
    members.push_back(std::async(std::launch::async, [&, rank]() -> std::string {
      Rendezvous me(member(rank));
      ++there;
      try {
        for (;;) me.query(30s), std::this_thread::sleep_for(1ms);
      } catch (const Error& error) {
        return error.what();
      }
    }));
  await(there, kWorkers);
  end_coordinator();
  for (auto& one : members)
    EXPECT_NE(one.get().find("was lost before the job could go on with another one"),
              std::string::npos);
}

}  // namespace
}  // namespace lockstep::cluster
