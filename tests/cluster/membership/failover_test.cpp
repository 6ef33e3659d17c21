// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/memory_store.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/cluster/membership/stored_job.h"
#include "tests/cluster/membership/end_of.h"

// The coordinator of a job with a store goes, and a member takes its place.
namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::end_of;

comm::Deadline soon() { return comm::Clock::now() + 30s; }

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
    options.on_event = [this](const MembershipEvent& event) { told_ += event.kind; };
    coordinator_ = std::make_unique<Coordinator>(options);
    coordinator_->lead(Leadership::campaign(job_, coordinator_->endpoint(), 30s, soon()));
    running_ = std::jthread([this](const std::stop_token& stop) {
      try {
        coordinator_->run(stop);
        end_ = "done";
      } catch (const Error& error) {
        end_ = error.kind();
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
    for (const auto end = soon(); comm::Clock::now() < end; std::this_thread::sleep_for(1ms))
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
    for (const auto end = soon(); count < wanted && comm::Clock::now() < end;)
      std::this_thread::sleep_for(1ms);
    ASSERT_EQ(count, wanted);
  }

  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  StoredJob job_{store_, "job"};
  std::unique_ptr<Coordinator> coordinator_;
  std::string end_, told_;
  std::jthread running_;
};

TEST_F(Failover, AMemberTakesTheCoordinatorsPlaceAndTheJobGoesOn) {
  std::atomic<int> listening = 0;
  std::vector<std::future<std::string>> members;
  for (int rank = 0; rank < kWorkers; ++rank)
    members.push_back(
        std::async(std::launch::async, [&, rank] { return work(rank, listening, 1); }));
  await(listening, kWorkers);
  const Leader first = *job_.leader(soon());
  end_coordinator();
  for (auto& one : members) EXPECT_EQ(one.get(), "urgent 2:012 here done");
  EXPECT_TRUE(job_.record(soon())->is_run_done());
  EXPECT_EQ(job_.record(soon())->membership.generation, 2);
  EXPECT_FALSE(job_.leader(soon()) == first);
}

// It was stopped while its lease ran out: it wakes up in a job that has another coordinator.
TEST_F(Failover, ACoordinatorThatHasLostItsLeaseDecidesNothingMore) {
  std::atomic<int> listening = 0;
  std::vector<std::future<std::string>> members;
  for (int rank = 0; rank < kWorkers; ++rank)
    members.push_back(
        std::async(std::launch::async, [&, rank] { return work(rank, listening, 1); }));
  await(listening, kWorkers);
  const StoreLease lease = store_->grant(60s, soon());
  const comm::Socket nobody = comm::listen_on({"127.0.0.1", 0});
  store_->commit({.puts = {{job_.name_of("leader"),
                            to_string(comm::local_endpoint(nobody)) + " other", lease.id}}},
                 soon());
  resize_job(coordinator_->endpoint(), "open sesame", 2, 30s);  // it tries to decide something
  running_.join();
  EXPECT_EQ(end_, "Deposed");
  EXPECT_EQ(told_, "");           // what was not to be is not told
  store_->revoke(lease, soon());  // the other one is gone too
  for (auto& one : members) EXPECT_EQ(one.get(), "urgent 2:012 here done");
  const std::optional<JobRecord> last = job_.record(soon());
  ASSERT_TRUE(last);
  for (const MembershipEvent& event : last->events) EXPECT_NE(event.kind, "resized");
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
