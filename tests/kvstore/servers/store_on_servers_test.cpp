// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/store_on_servers.h"

#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>

#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/servers/parameter_server.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/floats_of.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::floats_of, testing::message_of, testing::ServerRoom;

constexpr Pace kAsync{.type = "ps_async", .in_step = false};

// Runs `work` as each worker of the room, with its store.
template <class Work>
void as_room_workers(ServerRoom& room, const Work& work, const Pace& pace = {}) {
  testing::as_ranks(room.job().workers, [&](comm::Communicator& communicator) {
    work(*store_on_servers(room.job(), &communicator, pace));
  });
}

Tensor some(std::int64_t seed, std::vector<std::int64_t> shape = {7, 3}) {
  Tensor tensor = Tensor::empty(Shape(shape));
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data<float>()[i] = 1.0F / static_cast<float>(1 + (seed * 37 + i * 11) % 101);
  return tensor;
}

// MXNet's own check of dist_sync: after i + 1 rounds (n + 1) n rate / 2 (i + 1) + 1, of small and
// of large values.
TEST(StoreOnServers, PushesAreSummedAndUpdateTheValue) {
  constexpr int kRounds = 3;
  for (int servers : {1, 2, 3})
    for (int workers : {1, 4}) {
      ServerRoom room(servers, workers);
      as_room_workers(room, [&](KVStore& store) {
        const std::vector<std::pair<Key, std::vector<std::int64_t>>> keys{
            {3, {2, 3}}, {"fc1.weight", {5}}, {99, {1200, 1100}}};
        for (const auto& [key, shape] : keys) store.init(key, Tensor::full(Shape(shape), 1.0));
        store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -2.0);
        for (int i = 0; i < kRounds; ++i)
          for (const auto& [key, shape] : keys)
            store.push(key, Tensor::full(Shape(shape), store.rank() + 1.0));
        for (const auto& [key, shape] : keys) {
          const std::vector<float> value = floats_of(store.pull(key));
          EXPECT_EQ(value,
                    std::vector<float>(value.size(), (workers + 1) * workers * kRounds + 1.0F));
        }
        EXPECT_EQ(store.type(), "ps_sync");
        EXPECT_EQ(store.num_workers(), workers);
        store.barrier();
      });
    }
}

// Whatever a store between workers does with these calls, bit by bit.
std::vector<std::vector<float>> use(KVStore& store, const optim::OptimizerPtr& rule) {
  store.init("w", some(0));
  store.init(1, some(1, {40, 5}));
  if (rule) store.set_optimizer(rule, 0.5);
  const auto own = static_cast<std::int64_t>(store.rank());
  for (std::int64_t round = 0; round < 3; ++round) {
    store.push("w", {some(round + own), some(2 * own + 1)});
    store.row_sparse_push(1, {{7, own, 39, 7}, some(own + round, {4, 5})});
  }
  return {floats_of(store.pull("w")), floats_of(store.pull(1)),
          floats_of(store.row_sparse_pull(1, {39, 0, 7, 39}).rows)};
}

TEST(StoreOnServers, DoesBitByBitWhatAStoreBetweenWorkersDoes) {
  for (const optim::OptimizerPtr& rule :
       {optim::OptimizerPtr(), optim::sgd({.momentum = 0.9}), optim::adam({}), optim::lamb({})}) {
    std::vector<std::vector<float>> expected;
    testing::as_ranks(3, [&](comm::Communicator& communicator) {
      const auto store = create("allreduce", &communicator);
      auto result = use(*store, rule);
      if (communicator.rank() == 0) expected = std::move(result);
    });
    ServerRoom room(2, 3);
    as_room_workers(room, [&](KVStore& store) { EXPECT_EQ(use(store, rule), expected); });
  }
}

// A short value, and one in parts; what is pulled with a push, and what is pulled later.
std::vector<std::vector<float>> use_pushpull(KVStore& store, const optim::OptimizerPtr& rule) {
  const std::int64_t longer = 3 * static_cast<std::int64_t>(wire::kFloatsAtOnce) + 1;
  const std::vector<Key> keys{"short", "long"};
  store.init(keys[0], some(0));
  store.init(keys[1], some(1, {longer}));
  if (rule) store.set_optimizer(rule, 0.5);
  const auto own = static_cast<std::int64_t>(store.rank());
  std::vector<std::vector<float>> results;
  for (std::int64_t round = 0; round < 3; ++round) {
    for (const Tensor& value :
         store.pushpull(keys, {some(round + own), some(2 * own + round, {longer})}))
      results.push_back(floats_of(value));
    results.push_back(floats_of(store.pull("long")));
    store.push("long", some(own - round, {longer}));
    results.push_back(floats_of(store.pushpull("long", {some(own, {longer}), some(5, {longer})})));
  }
  results.push_back(floats_of(store.row_sparse_pull("long", {0, longer - 1}).rows));
  return results;
}

TEST(StoreOnServers, WhatIsPulledWithAPushIsBitByBitThatOfAStoreBetweenWorkers) {
  for (const optim::OptimizerPtr& rule : {optim::OptimizerPtr(), optim::adam({}), optim::lamb({})})
    for (const auto links : {ServerRoom::Links::memory, ServerRoom::Links::network}) {
      std::vector<std::vector<float>> expected;
      testing::as_ranks(2, [&](comm::Communicator& communicator) {
        auto result = use_pushpull(*create("allreduce", &communicator), rule);
        if (communicator.rank() == 0) expected = std::move(result);
      });
      ServerRoom room(2, 2, links);
      as_room_workers(room,
                      [&](KVStore& store) { EXPECT_TRUE(use_pushpull(store, rule) == expected); });
    }
}

TEST(StoreOnServers, ValuesAreThoseOfRankZeroAndShorterTypesAreGivenBackShort) {
  ServerRoom room(2, 2, ServerRoom::Links::network);
  as_room_workers(room, [](KVStore& store) {
    const Tensor value =
        store.broadcast("h", Tensor::full({3}, store.rank() + 1.0, DType::float16));
    EXPECT_EQ(value.dtype(), DType::float16);
    EXPECT_EQ(floats_of(value), std::vector<float>(3, 1.0F));
    EXPECT_EQ(floats_of(store.pushpull("h", Tensor::full({3}, 2.0, DType::bfloat16))),
              std::vector<float>(3, 4.0F));
    store.init("scalar", Tensor::full({}, 3.0));
    EXPECT_EQ(floats_of(store.pull("scalar")), std::vector<float>(1, 3.0F));
  });
}

// Small keys, which go together, and long ones, which go in parts.
TEST(StoreOnServers, ManyKeysAtOnceAreAsOneAfterTheOther) {
  for (const auto links : {ServerRoom::Links::memory, ServerRoom::Links::network}) {
    ServerRoom room(2, 2, links);
    as_room_workers(room, [](KVStore& store) {
      std::vector<Key> keys;
      std::vector<Tensor> values;
      for (int key = 0; key < 1500; ++key) keys.emplace_back(key);
      keys.emplace_back("long");
      keys.emplace_back("empty");
      for (const Key& key : keys) {
        const std::int64_t size = key == Key("long") ? 700'001 : key == Key("empty") ? 0 : 3;
        values.push_back(Tensor::full({size}, store.rank() + 1.0));
        store.init(key, Tensor::zeros({size}));
      }
      for (int round = 0; round < 2; ++round) {
        const std::vector<Tensor> pulled = store.pushpull(keys, values);
        for (std::size_t i = 0; i < keys.size(); ++i)
          EXPECT_EQ(floats_of(pulled[i]),
                    std::vector<float>(static_cast<std::size_t>(values[i].numel()), 3.0F));
      }
      // Of a key that is named twice the values are added.
      store.push({keys[0], keys[1], keys[0]}, {values[0], values[0], values[0]});
      const std::vector<Tensor> pulled = store.pull({keys[0], keys[1], keys[0]});
      EXPECT_EQ(floats_of(pulled[0]), std::vector<float>(3, 6.0F));
      EXPECT_EQ(floats_of(pulled[1]), std::vector<float>(3, 3.0F));
      EXPECT_EQ(floats_of(pulled[2]), std::vector<float>(3, 6.0F));
      EXPECT_EQ(message_of([&] { store.push(keys, {}); }),
                "push: 1502 keys and 0 values, expected as many");
      const std::vector<Tensor> twice =
          store.pushpull({keys[0], keys[1], keys[0]}, {values[0], values[0], values[0]});
      EXPECT_EQ(floats_of(twice[0]), std::vector<float>(3, 6.0F));
      twice[0].assign(Tensor::scalar(0.0));
      EXPECT_EQ(floats_of(twice[1]), std::vector<float>(3, 3.0F));
      EXPECT_EQ(floats_of(twice[2]), std::vector<float>(3, 6.0F));
      EXPECT_EQ(message_of<NotFound>([&] {
                  store.pull({keys[0], "x"});
                }),
                "pull: there is no key 'x', expected init() before");
      EXPECT_EQ(message_of([&] {
                  store.push({keys[0], keys[1]}, {values[0], values[1500]});
                }),
                "push: key 1: got shape [700001], expected [3]");
      store.barrier();
    });
  }
}

// The caller may write into what it pushed as soon as push() has returned.
TEST(StoreOnServers, WhatIsPushedIsWhatWasThereThen) {
  ServerRoom room(1, 1, ServerRoom::Links::network);
  as_room_workers(room, [](KVStore& store) {
    for (const std::int64_t size : {std::int64_t{3}, std::int64_t{700'001}}) {
      const Key key(size);
      store.init(key, Tensor::zeros({size}));
      Tensor values = Tensor::full({size}, 1.0);
      store.push(key, values);
      values.assign(Tensor::scalar(2.0));
      EXPECT_EQ(floats_of(store.pull(key)),
                std::vector<float>(static_cast<std::size_t>(size), 1.0F));
    }
  });
}

// Whole numbers pushed, and their sum known.
TEST(StoreOnServers, PushesThatCountAsTheyComeAreAllAppliedOnce) {
  constexpr int kWorkers = 4, kPushes = 25;
  ServerRoom room(2, kWorkers, ServerRoom::Links::network);
  as_room_workers(
      room,
      [](KVStore& store) {
        store.init(1, Tensor::zeros({10}));
        store.init("rows", Tensor::zeros({6, 2}));
        store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
        for (int i = 0; i < kPushes; ++i) {
          store.push(1, Tensor::full({10}, store.rank() + 1.0));
          store.row_sparse_push("rows", {{store.rank(), 5}, Tensor::full({2, 2}, 1.0)});
          if (i % 5 == 0) store.pull(1);
        }
        store.barrier();
        EXPECT_EQ(floats_of(store.pull(1)), std::vector<float>(10, (1 + 2 + 3 + 4) * kPushes));
        const RowSparse rows = store.row_sparse_pull("rows", {0, 4, 5});
        EXPECT_EQ(
            floats_of(rows.rows),
            (std::vector<float>{kPushes, kPushes, 0, 0, kWorkers * kPushes, kWorkers * kPushes}));
        EXPECT_EQ(store.staleness().pushes, 2U * kPushes);
        EXPECT_EQ(store.type(), "ps_async");
      },
      kAsync);
}

// In step a prefetch is a pull that nobody waits for: the rows after the push before it.
TEST(StoreOnServers, RowsThatWereAskedForAheadAreThoseOfAPull) {
  constexpr std::int64_t kRows = 2'000, kWidth = 600;  // on both servers
  ServerRoom room(2, 3);
  as_room_workers(room, [](KVStore& store) {
    store.init("rows", Tensor::zeros({kRows, kWidth}));
    store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
    const std::vector<std::int64_t> ids{kRows - 1, store.rank(), 5};
    const auto push = [&] { store.row_sparse_push("rows", {{5}, Tensor::full({1, kWidth}, 1.0)}); };
    const auto pulled = [&](const std::vector<std::int64_t>& row_ids) {
      return floats_of(store.row_sparse_pull("rows", row_ids).rows)
          .at(kWidth);  // of the second row
    };
    push();
    store.row_sparse_prefetch("rows", ids);
    EXPECT_EQ(pulled({4, 5}), 3.0F);
    EXPECT_EQ(pulled(ids), 3.0F);
    store.row_sparse_prefetch("rows", ids);
    push();
    EXPECT_EQ(pulled(ids), 6.0F) << "what was asked for before the push is older";
    store.row_sparse_prefetch("rows", ids);
    store.row_sparse_prefetch("rows", {0, 5});
    EXPECT_EQ(pulled({5, 0}), 6.0F);
    EXPECT_EQ(pulled(ids), 6.0F);
    EXPECT_EQ(message_of([&] { store.row_sparse_prefetch("rows", {kRows}); }),
              "row_sparse_prefetch: key 'rows': there is no row 2000, the value has 2000");
    store.barrier();
  });
}

// Out of step they are those of the moment when they were asked for.
TEST(StoreOnServers, RowsThatWereAskedForAheadAreOnTheirWayAtOnce) {
  ServerRoom room(1, 2);
  std::barrier both(2);
  as_room_workers(
      room,
      [&](KVStore& store) {
        store.init("rows", Tensor::zeros({8, 2}));
        store.init("other", Tensor::zeros({1}));
        store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
        if (store.rank() == 0) store.row_sparse_prefetch("rows", {1, 3});
        store.pull("other");  // the server has answered what it was asked before
        both.arrive_and_wait();
        if (store.rank() == 1) store.row_sparse_push("rows", {{3}, Tensor::full({1, 2}, 1.0)});
        store.barrier();
        if (store.rank() == 0) {
          EXPECT_EQ(floats_of(store.row_sparse_pull("rows", {1, 3}).rows),
                    std::vector<float>(4, 0.0F));
        }
        EXPECT_EQ(floats_of(store.row_sparse_pull("rows", {1, 3}).rows),
                  (std::vector<float>{0, 0, 1, 1}));
        store.barrier();
      },
      kAsync);
}

// A worker pushes on the value that it pulled while the other pushes thrice.
TEST(StoreOnServers, TellsHowOldTheValueWasThatAPushWasMadeOf) {
  ServerRoom room(1, 2);
  std::barrier both(2);
  as_room_workers(
      room,
      [&](KVStore& store) {
        store.init(1, Tensor::zeros({2}));
        store.pull(1);
        both.arrive_and_wait();
        for (int i = 0; store.rank() == 1 && i < 3; ++i) store.pushpull(1, Tensor::zeros({2}));
        both.arrive_and_wait();
        if (store.rank() == 0) store.pushpull(1, Tensor::zeros({2}));
        EXPECT_EQ(store.staleness().most, store.rank() == 0 ? 3U : 0U);
        store.barrier();
      },
      kAsync);
}

TEST(StoreOnServers, NoWorkerRunsFurtherAheadThanItsBound) {
  constexpr std::uint64_t kBound = 2;
  ServerRoom room(2, 3);
  std::atomic<std::uint64_t> steps[3] = {};
  as_room_workers(room,
                  [&](KVStore& store) {
                    store.init(1, Tensor::zeros({4}));
                    store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
                    const auto own = static_cast<std::size_t>(store.rank());
                    for (std::uint64_t step = 0; step < 40; ++step) {
                      store.pull(1);
                      // Whoever computes now has passed the wait: the others' pushes were applied
                      // before.
                      for (const auto& of_other : steps) EXPECT_LE(step, of_other + kBound + 1);
                      for (int i = 0; own == 0 && i < 5; ++i) store.pull(1);  // a slow one
                      store.push(1, Tensor::full({4}, 1.0));
                      ++steps[own];
                    }
                    EXPECT_LE(store.staleness().most_ahead, kBound);
                    store.barrier();
                    EXPECT_EQ(floats_of(store.pull(1)), std::vector<float>(4, 120.0F));
                  },
                  {.type = "ps_ssp", .in_step = false, .bound = kBound});
}

TEST(StoreOnServers, AWorkerThatIsTooFarAheadWaitsUntilTheDeadlineAndIsTold) {
  ServerRoom room(1, 2);
  ServedJob job = room.job();
  job.timeout = std::chrono::milliseconds(200);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto store = store_on_servers(communicator.rank() == 0 ? job : room.job(), &communicator,
                                        {.type = "ps_ssp", .in_step = false, .bound = 1});
    store->init(1, Tensor::zeros({4}));
    if (communicator.rank() == 0) {
      for (int step = 0; step < 2; ++step) store->push(1, Tensor::zeros({4}));
      const std::string message = message_of<comm::Timeout>([&] { store->pull(1); });
      EXPECT_TRUE(message.starts_with("pull of key 1 at server 0: ")) << message;
    }
    communicator.barrier();
    if (communicator.rank() == 1) store->push(1, Tensor::zeros({4}));
    store->barrier();
    if (communicator.rank() == 0) store->pull(1);
    communicator.barrier();
  });
}

TEST(StoreOnServers, AWorkerThatHasLeftIsNotWaitedFor) {
  ServerRoom room(1, 2);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    auto store = store_on_servers(room.job(), &communicator,
                                  {.type = "ps_ssp", .in_step = false, .bound = 1});
    store->init(1, Tensor::zeros({4}));
    if (communicator.rank() == 1) return;
    for (int step = 0; step < 5; ++step) store->pushpull(1, Tensor::zeros({4}));
  });
}

// As a worker of that rank, without the rest of it.
std::unique_ptr<comm::MessageClient> connect_as(int rank, const ServedJob& job) {
  comm::MessageClientOptions options;
  options.secret = job.secret;
  options.generation = comm::kAnyGeneration;
  options.name = worker_name(rank);
  options.server = comm::parse_endpoint(
      job.registry.get("server/0", comm::Clock::now() + std::chrono::seconds(10)));
  return std::make_unique<comm::MessageClient>(options);
}

template <class Message>
comm::PendingReply send_to(comm::MessageClient& server, wire::Topic topic, const Message& message,
                           const std::vector<float>& values = {}) {
  comm::Payload payload(wire::encode(message));
  if (!values.empty()) add_copy(payload, values);
  return server.request(payload, {.topic = static_cast<std::uint32_t>(topic)});
}

TEST(StoreOnServers, WhoWaitsForALostWorkerIsToldAlsoWhereTheJobSurvives) {
  for (const bool survives : {false, true}) {
    ServerRoom room(1, 2, ServerRoom::Links::network, 1, 1, {}, survives);
    auto first = connect_as(0, room.job()), second = connect_as(1, room.job());
    send_to(*first, wire::Topic::join_store, wire::JoinStore{1, 0}).wait();
    send_to(*second, wire::Topic::join_store, wire::JoinStore{1, 1}).wait();
    send_to(*first, wire::Topic::init_key, wire::InitKey{1, "k", 1, 1}, {0}).wait();
    wire::Push request;
    request.clock = {1, "k", 0, 1, wire::kNoBound};
    request.compression = "none";
    comm::PendingReply push = send_to(*first, wire::Topic::push, request, {1});
    second->abort("lost");
    second.reset();
    EXPECT_TRUE(message_of<comm::RequestFailed>([&] {
                  push.wait();
                }).ends_with("server 0: key k: worker 1 was lost"));
  }
}

TEST(StoreOnServers, CompressedPushesKeepWhatTheyDoNotSay) {
  ServerRoom room(2, 2);
  as_room_workers(room, [](KVStore& store) {
    store.set_gradient_compression(parse_compression("2bit:0.5"));
    store.init(1, Tensor::zeros({3}));
    const Tensor gradient = Tensor::full({3}, 0.3);
    EXPECT_EQ(floats_of(store.pushpull(1, gradient)), std::vector<float>(3, 0.0F));
    EXPECT_EQ(floats_of(store.pushpull(1, gradient)), std::vector<float>(3, 1.0F));
    EXPECT_EQ(message_of([&] { store.set_gradient_compression({}); }),
              "set_gradient_compression: something was pushed already, expected it before");
  });
}

TEST(StoreOnServers, StatesOfTheOptimizerAreSavedAndLoaded) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "store_on_servers.states").string();
  const auto train = [](KVStore& store) {
    store.push("w", some(3));
    store.push("large", Tensor::full({1200, 1000}, 0.5));
    return std::vector{floats_of(store.pull("w")), floats_of(store.pull("large"))};
  };
  std::vector<std::vector<float>> kept, expected;
  ServerRoom room(3, 2);
  as_room_workers(room, [&](KVStore& store) {
    store.init("w", some(5));
    store.init("large", Tensor::zeros({1200, 1000}));
    store.set_optimizer(optim::adam({}));
    const auto values = train(store);
    if (store.rank() == 0) store.save_optimizer_states(path);
    store.barrier();
    const auto next = train(store);
    if (store.rank() != 0) return;
    kept = values;
    expected = next;
  });
  // Stores with the values of then, with and without the states.
  for (const bool loads : {true, false})
    as_room_workers(room, [&](KVStore& store) {
      store.init("w", Tensor::from(kept[0], {7, 3}));
      store.init("large", Tensor::from(kept[1], {1200, 1000}));
      store.set_optimizer(optim::adam({}));
      if (loads) store.load_optimizer_states(path);
      EXPECT_EQ(train(store) == expected, loads);
    });
  const auto local = create("local");
  local->init("w", Tensor::from(kept[0], {7, 3}));
  local->set_optimizer(optim::adam({}));
  EXPECT_EQ(message_of<NotFound>([&] { local->load_optimizer_states(path); }),
            path + ": there is no key 'large'");
  local->init("large", Tensor::zeros({1200, 1000}));
  local->load_optimizer_states(path);
  local->push("w", {some(3), some(3)});
  EXPECT_EQ(floats_of(local->pull("w")), expected[0]);
  local->set_optimizer(optim::sgd({}));
  EXPECT_EQ(message_of([&] { local->load_optimizer_states(path); }),
            path + ": states of the rule adam, expected sgd");
  std::filesystem::remove(path);
}

TEST(StoreOnServers, BadCallsNameTheKeyAndTheServerLivesOn) {
  ServerRoom room(2, 1);
  as_room_workers(room, [&](KVStore& store) {
    store.init(3, Tensor::zeros({2}));
    EXPECT_EQ(message_of([&] { store.init(3, Tensor::zeros({2})); }),
              "init: key 3 is there already");
    EXPECT_EQ(message_of<NotFound>([&] { store.push("3", Tensor::zeros({2})); }),
              "push: there is no key '3', expected init() before");
    EXPECT_EQ(message_of<NotFound>([&] { store.pull(4); }),
              "pull: there is no key 4, expected init() before");
    EXPECT_EQ(message_of([&] { store.push(3, Tensor::zeros({3})); }),
              "push: key 3: got shape [3], expected [2]");
    EXPECT_EQ(message_of([&] { store.push(3, Tensor::zeros({2}, DType::int64)); }),
              "push: key 3: got int64[2], expected float32, float16 or bfloat16");
    EXPECT_EQ(message_of([&] { store.row_sparse_pull(3, {2}); }),
              "row_sparse_pull: key 3: there is no row 2, the value has 2");
    store.init("large", Tensor::zeros({1000, 1000}));
    EXPECT_EQ(message_of<Unsupported>([&] { store.set_optimizer(optim::lamb({})); }),
              "set_optimizer: lamb needs the norm of a whole value, and key 'large' lies on 2 "
              "servers; expected set_optimizer before init");
    EXPECT_EQ(message_of([&] { store.save_optimizer_states("nowhere"); }),
              "save_optimizer_states: no optimizer, expected set_optimizer() before");
    EXPECT_EQ(floats_of(store.pushpull(3, Tensor::full({2}, 5.0))), std::vector<float>(2, 5.0F));
  });
}

// What no store sends.
TEST(StoreOnServers, MessagesThatAreNotOursAreRefusedAndTheServerLivesOn) {
  ServerRoom room(1, 1, ServerRoom::Links::network);
  as_room_workers(room, [&](KVStore& store) {
    store.init(3, Tensor::zeros({2}));
    ServerConnections stranger(room.job(), 7);
    const auto refused = [&](wire::Topic topic, const auto& message) {
      return message_of<comm::RequestFailed>([&] { stranger.ask(0, topic, message, "try"); });
    };
    const auto ends_with = [](const std::string& text, const std::string& end) {
      EXPECT_TRUE(text.starts_with("try at server 0: ") && text.ends_with(end)) << text;
    };
    ends_with(refused(static_cast<wire::Topic>(99), wire::JoinStore{}),
              "server 0: message: there is no request of kind 99");
    ends_with(refused(wire::Topic::push, wire::JoinStore{}),
              "server 0: message: 0 bytes are left, expected 4");
    ends_with(refused(wire::Topic::pull, wire::Pull{{5, "3", 0, 0, 0}}),
              "server 0: there is no store 5");
    ends_with(refused(wire::Topic::join_store, wire::JoinStore{5, 9}),
              "server 0: worker 9, the job has 1 of them");
    ends_with(refused(wire::Topic::give, wire::Give{}), "server 0: there is no table ''");
    EXPECT_EQ(floats_of(store.pushpull(3, Tensor::full({2}, 5.0))), std::vector<float>(2, 5.0F));
  });
}

}  // namespace
}  // namespace lockstep::kvstore
