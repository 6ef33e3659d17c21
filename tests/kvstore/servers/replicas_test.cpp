// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <barrier>
#include <random>

#include "lockstep/kvstore/servers/store_on_servers.h"
#include "lockstep/kvstore/servers/view.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of, testing::ServerRoom;
using namespace std::chrono_literals;

constexpr int kServers = 3, kWorkers = 3;
constexpr std::int64_t kShards = 8;

std::vector<float> of(const Tensor& tensor) { return tensor.to_vector<float>(); }

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
  testing::as_ranks(kWorkers, [&](comm::Communicator& communicator) {
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
      EXPECT_EQ(of(store->pull(key)), std::vector<float>(10, (1 + 2 + 3) * kPushes)) << key;
    const RowSparse rows = store->row_sparse_pull("rows", {0, 4, 5});
    EXPECT_EQ(of(rows.rows),
              (std::vector<float>{kPushes, kPushes, 0, 0, kWorkers * kPushes, kWorkers * kPushes}));
    store->barrier();
  });
}

TEST(Replicas, NoPushIsLostOrAppliedTwiceWhenAServerEnds) {
  for (int lost = 0; lost < kServers; ++lost) {
    ServerRoom room(kServers, kWorkers, ServerRoom::Links::network, 1, 2);
    count_while(room, [&] { room.end(lost); });
  }
}

TEST(Replicas, ANewBackupIsFilledWhileTheWorkGoesOnSoThatAnotherServerMayEnd) {
  ServerRoom room(kServers, kWorkers, ServerRoom::Links::network, 1, 2);
  count_while(room, [&] {
    await_backups(room, {});
    room.end(1);
    await_backups(room, {1});
  });
  await_backups(room, {1});
  // What is there now is on the two that are left: one of them is enough.
  count_while(room, [&] { room.end(2); });
}

FlatLayout layout() {
  FlatLayout layout;
  layout.add({.count = 5});
  layout.add({.count = 3 * optim::kPieceElements + 100});
  layout.add({.count = 2 * optim::kPieceElements + 1});
  layout.tables.push_back({.rows = 50, .width = 3});
  layout.tables.push_back({.rows = 7, .width = 1});
  return layout;
}

// The same for every shard: some rows of each table.
std::vector<std::vector<RowNode>> row_nodes(const FlatLayout& layout, ShardRange own, int step) {
  std::vector<std::vector<RowNode>> tables;
  for (const RowTable& table : layout.tables) {
    std::vector<RowNode>& nodes = tables.emplace_back();
    for (const ShardRange& range : subtrees_in(kShards, own)) {
      const auto first = static_cast<std::int64_t>(step) % 4;
      RowSums sums{.ids = {first, first + 2}};
      sums.rows.assign(2 * table.width, static_cast<float>(range.hi - range.lo));
      nodes.push_back({range, sums});
    }
  }
  return tables;
}

// Weights after some steps, and the slots; `at_step` is called by the first worker.
std::vector<std::vector<float>> train(Mode& mode, const optim::OptimizerPtr& rule,
                                      const std::function<void(int)>& at_step) {
  FlatState state(layout(), rule, mode.slot_place());
  const auto synchronizer = mode.synchronize(state, kShards);
  for (std::size_t i = 0; i < state.layout().floats; ++i)
    state.weights()[i] = 0.001F * static_cast<float>(i % 1000);
  synchronizer->weights_changed();
  ThreadTeam caller(1);
  for (int step = 0; step < 8; ++step) {
    if (mode.group().is_first()) at_step(step);
    std::vector<std::vector<float>> sums;
    std::vector<Synchronizer::Node> nodes;
    // Whole numbers: their sums are the same in any order.
    for (const ShardRange& range : subtrees_in(kShards, mode.group().range(kShards))) {
      sums.emplace_back(state.layout().floats,
                        static_cast<float>((range.hi - range.lo) * (step + 1)));
      nodes.push_back({range, {}});
    }
    synchronizer->begin(step, 0.01);
    for (const FlatParameter& parameter : state.layout().parameters) {
      for (std::size_t n = 0; n < nodes.size(); ++n)
        nodes[n].sum = std::span(sums[n]).subspan(parameter.offset, parameter.count);
      synchronizer->give(parameter.offset, nodes);
    }
    synchronizer->give_rows(row_nodes(state.layout(), mode.group().range(kShards), step));
    std::vector<float> rows(kShards);
    EXPECT_TRUE(synchronizer->commit({}, rows, caller).counts());
  }
  std::vector<std::vector<float>> numbers;
  for (const FlatParameter& parameter : state.layout().parameters) {
    const auto weights = state.weights().subspan(parameter.offset, parameter.count);
    numbers.emplace_back(weights.begin(), weights.end());
    for (int k = 0; k < rule->slots(); ++k) {
      const auto slot = synchronizer->slot(static_cast<std::size_t>(k))
                            .subspan(parameter.offset, parameter.count);
      numbers.emplace_back(slot.begin(), slot.end());
    }
  }
  for (std::size_t t = 0; t < state.tables().size(); ++t) {
    const auto weights = state.tables().weights(t);
    numbers.emplace_back(weights.begin(), weights.end());
    for (int k = 0; k < rule->slots(); ++k) {
      const auto slot = synchronizer->table_slot(static_cast<std::size_t>(k), t);
      numbers.emplace_back(slot.begin(), slot.end());
    }
  }
  return numbers;
}

TEST(Replicas, TrainingInStepHasTheBitsOfAnUndisturbedRun) {
  std::mt19937_64 random(testing::seed_of_this_run());
  for (const optim::OptimizerPtr& rule : {optim::adam({}), optim::lamb({.clip_norm = 0.1})}) {
    const auto expected = train(*local_mode(), rule, [](int) {});
    for (int lost = 0; lost < kServers; ++lost) {
      ServerRoom room(kServers, kWorkers, ServerRoom::Links::network, 1, 2);
      const std::chrono::microseconds when(random() % 3000);
      std::jthread disturber;
      room.as_workers([&](Mode& mode) {
        EXPECT_TRUE(train(mode, rule,
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
