// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <barrier>
#include <random>

#include "lockstep/kvstore/servers/store_on_servers.h"
#include "lockstep/kvstore/servers/view.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/floats_of.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/kvstore/servers/train_in_step.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::kvstore {
namespace {

using testing::floats_of, testing::message_of, testing::ServerRoom, testing::train_in_step;
using namespace std::chrono_literals;

constexpr int kReplicaServers = 3, kReplicaWorkers = 3;

// Every range has a backup again, and none is on one of these.
void await_backups(const ServerRoom& room, const std::vector<int>& gone) {
  const SharedView shared(room.job());
  const auto is_gone = [&](int server) {
    return server < 0 || std::find(gone.begin(), gone.end(), server) != gone.end();
  };
  for (const comm::Deadline end = comm::Clock::now() + 20s; comm::Clock::now() < end;) {
    const View view = shared.current();
    if (std::none_of(view.ranges.begin(), view.ranges.end(), [&](const View::Range& range) {
          return is_gone(range.primary) || is_gone(range.backup);
        }))
      return;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "some range has no backup";
}

// Whole numbers pushed, and their sum known, while servers end at any time.
void count_while(ServerRoom& room, const std::function<void()>& disturb) {
  constexpr int kPushes = 60;
  std::atomic<int> pushed = 0;
  std::jthread disturber([&] {
    while (pushed < kPushes / 2) std::this_thread::yield();
    disturb();
  });
  testing::as_ranks(kReplicaWorkers, [&](comm::Communicator& communicator) {
    const auto store =
        store_on_servers(room.job(), &communicator, {.type = "ps_async", .in_step = false});
    for (int key = 0; key < 6; ++key) store->init(key, Tensor::zeros({10}));
    store->init("rows", Tensor::zeros({6, 2}));
    store->set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
    for (int i = 0; i < kPushes; ++i) {
      for (int key = 0; key < 6; ++key) store->push(key, Tensor::full({10}, store->rank() + 1.0));
      store->row_sparse_push("rows", {{store->rank(), 5}, Tensor::full({2, 2}, 1.0)});
      if (store->rank() == 0) ++pushed;
    }
    store->barrier();
    for (int key = 0; key < 6; ++key)
      EXPECT_EQ(floats_of(store->pull(key)), std::vector<float>(10, (1 + 2 + 3) * kPushes)) << key;
    const RowSparse rows = store->row_sparse_pull("rows", {0, 4, 5});
    EXPECT_EQ(floats_of(rows.rows),
              (std::vector<float>{kPushes, kPushes, 0, 0, kReplicaWorkers * kPushes,
                                  kReplicaWorkers * kPushes}));
    store->barrier();
  });
}

TEST(Replicas, NoPushIsLostOrAppliedTwiceWhenAServerEnds) {
  for (int lost = 0; lost < kReplicaServers; ++lost) {
    ServerRoom room(kReplicaServers, kReplicaWorkers, ServerRoom::Links::network, 1, 2);
    count_while(room, [&] { room.end(lost); });
  }
}

TEST(Replicas, ANewBackupIsFilledWhileTheWorkGoesOnSoThatAnotherServerMayEnd) {
  ServerRoom room(kReplicaServers, kReplicaWorkers, ServerRoom::Links::network, 1, 2);
  count_while(room, [&] {
    await_backups(room, {});
    room.end(1);
    await_backups(room, {1});
  });
  await_backups(room, {1});
  // What is there now is on the two that are left: one of them is enough.
  count_while(room, [&] { room.end(2); });
}

TEST(Replicas, AServerThatEndsBeforeAnyWorkerHasFoundItIsReplacedByItsBackup) {
  ServerRoom room(kReplicaServers, kReplicaWorkers, ServerRoom::Links::network, 1, 2);
  await_backups(room, {});
  room.end(1);
  count_while(room, [] {});
}

TEST(Replicas, TrainingInStepHasTheBitsOfAnUndisturbedRun) {
  std::mt19937_64 random(testing::seed_of_this_run());
  for (const optim::OptimizerPtr& rule : {optim::adam({}), optim::lamb({.clip_norm = 0.1})}) {
    const auto expected = train_in_step(*local_mode(), rule);
    for (int lost = 0; lost < kReplicaServers; ++lost) {
      ServerRoom room(kReplicaServers, kReplicaWorkers, ServerRoom::Links::network, 1, 2);
      const std::chrono::microseconds when(random() % 3000);
      std::jthread disturber;
      room.as_workers([&](Mode& mode) {
        EXPECT_TRUE(train_in_step(mode, rule,
                                  [&](int step) {
                                    if (step == 3)
                                      disturber = std::jthread([&] {
                                        for (const auto end = comm::Clock::now() + when;
                                             comm::Clock::now() < end;)
                                          std::this_thread::yield();
                                        room.end(lost);
                                      });
                                  }) == expected)
            << rule->name() << ", server " << lost;
      });
    }
  }
}

TEST(Replicas, WithoutThemTheServerThatWasLostIsNamed) {
  ServerRoom room(2, 1, ServerRoom::Links::network);
  ServedJob job = room.job();
  job.timeout = 500ms;
  testing::as_ranks(1, [&](comm::Communicator& communicator) {
    const auto store = store_on_servers(job, &communicator);
    for (int key = 0; key < 4; ++key) store->init(key, Tensor::zeros({2}));
    room.end(1);
    std::string message;
    for (int key = 0; key < 4; ++key)
      if (const auto text = message_of<comm::Timeout>([&] { store->pull(key); });
          text.starts_with("pull"))
        message = text;
    EXPECT_NE(message.find("at server 1: 127.0.0.1:"), std::string::npos) << message;
  });
}

TEST(Replicas, AreOneOrTwo) {
  testing::ProcessRegistry registry;
  ServedJob job{.servers = 1, .workers = 1, .replicas = 2, .registry = registry.functions()};
  EXPECT_EQ(message_of([&] { serve(job, {}); }),
            "kvstore: 2 replicas on 1 servers, expected 1 or 2 and no more than them");
  job.servers = 2;
  job.registry.compare_and_set = {};
  EXPECT_EQ(message_of([&] { ps_mode(job, nullptr, alone()); }),
            "kvstore: 2 replicas need a registry that compares and sets");
}

TEST(View, ALostServersRangesGoToTheirBackups) {
  View view{5, {{0, 1}, {1, 2}, {2, 0}}};
  EXPECT_TRUE(view.remove(1));
  EXPECT_EQ(view.ranges, (std::vector<View::Range>{{0, -1}, {2, -1}, {2, 0}}));
  EXPECT_FALSE(view.remove(0));
  EXPECT_EQ(view.of(0), (View::Range{0, -1}));
}

}  // namespace
}  // namespace lockstep::kvstore
