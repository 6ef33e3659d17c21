// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/kvstore.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "lockstep/comm/transports/in_process.h"
#include "lockstep/comm/transports/shm.h"
#include "lockstep/kvstore/store_type.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/kvstore/floats_of.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::floats_of, testing::message_of;

template <class Work>
void as_store_workers(int count, const Work& work) {
  testing::as_ranks(
      count, [&](comm::Communicator& communicator) { work(*create("allreduce", &communicator)); });
}

Tensor some_vector(std::int64_t seed) {
  std::vector<float> values(7);
  for (std::size_t i = 0; i < 7; ++i)
    values[i] = 1.0F / static_cast<float>(1 + (static_cast<std::size_t>(seed) * 37 + i * 11) % 101);
  return Tensor::from(values, {7});
}

TEST(KVStore, AValueIsThatOfRankZero) {
  as_store_workers(3, [](KVStore& store) {
    EXPECT_EQ(store.num_workers(), 3);
    EXPECT_EQ(store.type(), "allreduce");
    const Tensor value =
        store.broadcast("w", Tensor::full({2}, static_cast<double>(store.rank() + 5)));
    EXPECT_EQ(floats_of(value), std::vector<float>(2, 5.0F));
    store.barrier();
  });
}

// MXNet's own check of dist_sync: after i + 1 rounds (n + 1) n rate / 2 (i + 1) + 1.
TEST(KVStore, PushesAreSummedAndUpdateTheValue) {
  constexpr int kWorkers = 4, kRounds = 3;
  as_store_workers(kWorkers, [](KVStore& store) {
    store.init(3, Tensor::full({2, 3}, 1.0));
    store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -2.0);
    for (int i = 0; i < kRounds; ++i) store.push(3, Tensor::full({2, 3}, store.rank() + 1.0));
    EXPECT_EQ(floats_of(store.pull(3)),
              std::vector<float>(6, (kWorkers + 1) * kWorkers * kRounds + 1.0F));
  });
}

TEST(KVStore, APushWithoutAnOptimizerReplacesTheValue) {
  as_store_workers(2, [](KVStore& store) {
    store.init("a", Tensor::zeros({2}));
    store.push("a", Tensor::full({2}, 4.0));
    const Tensor one = Tensor::zeros({2}), two = Tensor::zeros({2});
    store.pull("a", {one, two});
    EXPECT_EQ(floats_of(one), std::vector<float>(2, 8.0F));
    EXPECT_EQ(floats_of(two), floats_of(one));
    EXPECT_EQ(floats_of(store.pushpull("a", {one, two})), std::vector<float>(2, 32.0F));
  });
}

TEST(KVStore, WhoPushesTheValuesChangesNoBit) {
  const auto store = create("local");
  store->init(0, some_vector(0));
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < 6; ++i) all.push_back(some_vector(i));
  const std::vector<float> expected = floats_of(store->pushpull(0, all));
  const std::vector<std::vector<std::size_t>> ways{{3, 3}, {1, 5}, {2, 1, 3}, {1, 1, 1, 1, 1, 1}};
  for (const auto& counts : ways)
    as_store_workers(static_cast<int>(counts.size()), [&](KVStore& of_worker) {
      of_worker.init(0, some_vector(0));
      std::size_t begin = 0;
      for (int r = 0; r < of_worker.rank(); ++r) begin += counts[static_cast<std::size_t>(r)];
      const std::size_t own = counts[static_cast<std::size_t>(of_worker.rank())];
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::vector<Tensor> mine(first, first + static_cast<std::ptrdiff_t>(own));
      EXPECT_EQ(floats_of(of_worker.pushpull(0, mine)), expected);
    });
}

TEST(KVStore, ShorterTypesAreKeptInFullAndGivenBackShort) {
  const auto store = create("device");
  store->init("h", Tensor::full({3}, 1.0, DType::float16));
  store->set_optimizer(optim::sgd({.learning_rate = 0x1p-12}));
  for (int i = 0; i < 4; ++i) store->push("h", Tensor::full({3}, -1.0, DType::float16));
  EXPECT_EQ(store->pull("h").dtype(), DType::float16);
  EXPECT_EQ(floats_of(store->pull("h")), std::vector<float>(3, 1.0F + 0x1p-10F));
}

TEST(KVStore, CompressedPushesKeepWhatTheyDoNotSay) {
  as_store_workers(2, [](KVStore& store) {
    store.set_gradient_compression(parse_compression("2bit:0.5"));
    store.init(1, Tensor::zeros({3}));
    const Tensor gradient = Tensor::full({3}, 0.3);
    EXPECT_EQ(floats_of(store.pushpull(1, gradient)), std::vector<float>(3, 0.0F));
    EXPECT_EQ(floats_of(store.pushpull(1, gradient)), std::vector<float>(3, 1.0F));
    EXPECT_EQ(message_of([&] { store.set_gradient_compression({}); }),
              "set_gradient_compression: something was pushed already, expected it before");
  });
}

TEST(KVStore, RowsOfSeveralWorkersAreAddedAndPulledOnceInOrder) {
  as_store_workers(3, [](KVStore& store) {
    store.init("e", Tensor::full({5, 2}, 1.0));
    store.set_optimizer(optim::sgd({.learning_rate = 1.0}));
    const auto own = static_cast<std::int64_t>(store.rank());
    store.row_sparse_push("e", {{4, own}, Tensor::full({2, 2}, -1.0)});
    const RowSparse pulled = store.row_sparse_pull("e", {4, 0, 3, 4});
    EXPECT_EQ(pulled.ids, (std::vector<std::int64_t>{0, 3, 4}));
    EXPECT_EQ(floats_of(pulled.rows), (std::vector<float>{2, 2, 1, 1, 4, 4}));
  });
}

TEST(KVStore, RowsWithoutAnOptimizerReplaceTheValue) {
  const auto store = create("local");
  store->init("e", Tensor::full({3, 1}, 1.0));
  store->row_sparse_push("e", {{2, 2}, Tensor::full({2, 1}, 5.0)});
  EXPECT_EQ(floats_of(store->pull("e")), (std::vector<float>{0, 0, 10}));
  EXPECT_EQ(message_of([&] { store->row_sparse_pull("e", {3}); }),
            "row_sparse_pull: key 'e': there is no row 3, the value has 3");
}

TEST(KVStore, BadCallsAreOneLineAndChangeNothing) {
  const auto store = create("local");
  store->init(3, Tensor::zeros({2}));
  EXPECT_EQ(message_of([&] { store->init(3, Tensor::zeros({2})); }),
            "init: key 3 is there already");
  EXPECT_EQ(message_of<NotFound>([&] { store->push("3", Tensor::zeros({2})); }),
            "push: there is no key '3', expected init() before");
  EXPECT_EQ(message_of<NotFound>([&] { store->pull(4); }),
            "pull: there is no key 4, expected init() before");
  EXPECT_EQ(message_of([&] { store->push(3, Tensor::zeros({3})); }),
            "push: key 3: got shape [3], expected [2]");
  EXPECT_EQ(message_of([&] { store->push(3, std::vector<Tensor>{}); }), "push: key 3: no value");
  EXPECT_EQ(message_of([&] { store->init(5, Tensor::zeros({2}, DType::int32)); }),
            "init: key 5: got int32[2], expected float32, float16 or bfloat16");
  EXPECT_EQ(
      message_of<Unsupported>([&] { store->set_optimizer(optim::sgd({.clip_norm = 1.0})); }),
      "set_optimizer: clip_norm needs all gradients together, and a push has one; expected 0");
}

TEST(KVStore, WorkersThatDoDifferentThingsAreTold) {
  as_store_workers(2, [](KVStore& store) {
    EXPECT_EQ(message_of([&] { store.init(0, Tensor::zeros({2 + store.rank()})); }),
              "kvstore: worker 0 does init of key 0 float32[2], worker 1 does init of key 0 "
              "float32[3]");
    store.init("a", Tensor::zeros({1}));
    store.init("b", Tensor::zeros({1}));
    EXPECT_EQ(message_of([&] { store.push(store.rank() == 0 ? "a" : "b", Tensor::zeros({1})); }),
              "kvstore: worker 0 does push of key 'a', worker 1 does push of key 'b'");
  });
}

// Everybody else is told at once, and all can go on.
TEST(KVStore, WhatOneWorkerCannotDoIsToldToAll) {
  as_store_workers(3, [](KVStore& store) {
    const auto told = [&](const auto& bad, const auto& good, const std::string& why) {
      if (store.rank() == 1)
        EXPECT_EQ(message_of<Error>(bad), why);
      else
        EXPECT_EQ(message_of<comm::Aborted>(good), "kvstore: worker 1 gave up: " + why);
    };
    store.init("a", Tensor::zeros({2, 2}));
    const auto push = [&] { store.push("a", Tensor::full({2, 2}, 1.0)); };
    told(
        [&] {
          store.push("b", Tensor::zeros({2, 2}));
        },
        push, "push: there is no key 'b', expected init() before");
    told([&] { store.push("a", Tensor::zeros({3})); }, push,
         "push: key 'a': got shape [3], expected [2, 2]");
    told([&] { store.init("a", Tensor::zeros({1})); }, [&] { store.init("c", Tensor::zeros({1})); },
         "init: key 'a' is there already");
    told(
        [&] {
          store.row_sparse_push("a", {{7}, Tensor::zeros({1, 2})});
        },
        [&] {
          store.row_sparse_push("a", {{1}, Tensor::zeros({1, 2})});
        },
        "row_sparse_push: key 'a': there is no row 7, the value has 2");
    push();
    EXPECT_EQ(floats_of(store.pull("a")), std::vector<float>(4, 3.0F));
  });
}

// A pull asks nobody: who goes away after a bad one is missed at once.
TEST(KVStore, AWorkerThatLeavesAfterABadPullIsMissed) {
  comm::InProcessGroup group({"here", "here"});
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&group, rank] {
      comm::Communicator communicator(group.connect(rank));
      const auto store = create("allreduce", &communicator);
      store->init("a", Tensor::zeros({2}));
      if (rank == 1) {
        EXPECT_THROW(store->pull("b"), NotFound);
        return;
      }
      const std::string message =
          message_of<comm::PeerLost>([&] { store->push("a", Tensor::zeros({2})); });
      EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
    });
}

TEST(KVStore, TypesHaveOurNamesAndThoseOfMxnet) {
  EXPECT_EQ(create("local")->type(), "local");
  for (const char* name : {"dist_sync", "dist_device_sync", "horovod", "allreduce"})
    EXPECT_EQ(create(name)->type(), "allreduce");
  for (const char* name : {"dist_async", "ps_sync", "ps_ssp"})
    EXPECT_EQ(message_of([&] { create(name); }),
              fmt::format("kvstore '{}': needs servers, and the job has none", name));
  EXPECT_EQ(find_store_type("dist_sync", true).name, "ps_sync");
  EXPECT_EQ(find_store_type("dist_device_sync", true).name, "ps_sync");
  EXPECT_EQ(find_store_type("dist_async", true).name, "ps_async");
  EXPECT_EQ(find_store_type("horovod", true).name, "allreduce");
  EXPECT_EQ(message_of([] { create("redis"); }),
            "kvstore 'redis': expected local, allreduce, ps_sync, ps_async or ps_ssp, or MXNet's "
            "device, dist_sync, dist_device_sync, dist_async or horovod");
}

TEST(KVStore, WorksBetweenProcesses) {
  const std::string job = "kvtest" + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    try {
      comm::ShmOptions shm;
      shm.group = job;
      shm.rank = rank;
      shm.size = 3;
      comm::Communicator communicator(comm::connect_shm(shm));
      const auto store = create("dist_sync", &communicator);
      store->init(0, Tensor::zeros({1000}));
      const std::vector<float> sum =
          floats_of(store->pushpull(0, Tensor::full({1000}, rank + 1.0)));
      store->barrier();
      _exit(sum == std::vector<float>(1000, 6.0F) ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace lockstep::kvstore
