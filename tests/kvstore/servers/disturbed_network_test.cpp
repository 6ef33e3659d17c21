// SPDX-License-Identifier: Apache-2.0
// Workers, servers and their backups over a network that delays, doubles, reorders and drops
// messages: the results are those of a good one.
#include <gtest/gtest.h>

#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/servers/store_on_servers.h"
#include "lockstep/optim/optimizers.h"
#include "tests/comm/frame_proxy.h"
#include "tests/kvstore/floats_of.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/kvstore/servers/train_in_step.h"
#include "tests/seed.h"

namespace lockstep::kvstore {
namespace {

using testing::Disturbance, testing::floats_of, testing::FrameProxy, testing::ServerRoom;

constexpr int kDisturbedServers = 2, kDisturbedWorkers = 2;

// A proxy before each server.
class Proxies {
 public:
  explicit Proxies(const Disturbance& disturbance) : disturbance_(disturbance) {}

  ServerRoom::Route route() {
    return [this](const ServedJob& job, const std::string& place) {
      const std::lock_guard lock(mutex_);
      all_.push_back(std::make_unique<FrameProxy>(job.hub, job.secret, comm::parse_endpoint(place),
                                                  disturbance_, seed_ + all_.size()));
      return comm::to_string(all_.back()->endpoint());
    };
  }

  // A test whose network is good shows nothing.
  void expect_disturbed() const {
    FrameProxy::Counts sum;
    for (const auto& proxy : all_) {
      const FrameProxy::Counts& counts = proxy->counts();
      sum.passed += counts.passed;
      sum.delayed += counts.delayed;
      sum.repeated += counts.repeated;
      sum.reordered += counts.reordered;
      sum.dropped += counts.dropped;
    }
    EXPECT_GT(sum.delayed, 0) << "of " << sum.passed;
    EXPECT_GT(sum.repeated, 0) << "of " << sum.passed;
    EXPECT_GT(sum.reordered, 0) << "of " << sum.passed;
    EXPECT_GT(sum.dropped, 0) << "of " << sum.passed;
  }

 private:
  Disturbance disturbance_;
  std::uint64_t seed_ = testing::seed_of_this_run();
  std::mutex mutex_;
  std::vector<std::unique_ptr<FrameProxy>> all_;
};

constexpr Disturbance kBad{.delayed = 100, .repeated = 100, .reordered = 100, .dropped = 15};

class DisturbedNetwork : public ::testing::TestWithParam<int> {
 protected:
  // Runs `work` as each worker, with its store.
  template <class Work>
  void with_stores(const Pace& pace, const Work& work) {
    testing::as_ranks(kDisturbedWorkers, [&](comm::Communicator& communicator) {
      work(*store_on_servers(room_.job(), &communicator, pace));
    });
    proxies_.expect_disturbed();
  }

  Proxies proxies_{kBad};
  ServerRoom room_{kDisturbedServers, kDisturbedWorkers, ServerRoom::Links::memory, 1,
                   GetParam(),        proxies_.route()};
};

INSTANTIATE_TEST_SUITE_P(Replicas, DisturbedNetwork, ::testing::Values(1, 2));

// Whole numbers, each round of which is right before the next one begins.
TEST_P(DisturbedNetwork, PushesInStepAreCountedOnce) {
  with_stores({}, [](KVStore& store) {
    std::vector<Key> keys{"long"};
    std::vector<Tensor> values{
        Tensor::full({2 * static_cast<std::int64_t>(wire::kFloatsAtOnce) + 7}, store.rank() + 1.0)};
    for (int key = 0; key < 6; ++key) {
      keys.emplace_back(key);
      values.push_back(Tensor::full({3, 2}, store.rank() + 1.0));
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
      store.init(keys[i], Tensor::zeros(values[i].shape()));
    const auto expect_all = [&](const std::vector<Tensor>& pulled, float expected) {
      for (std::size_t i = 0; i < keys.size(); ++i)
        ASSERT_EQ(floats_of(pulled[i]),
                  std::vector<float>(static_cast<std::size_t>(values[i].numel()), expected))
            << "key " << keys[i].str();
    };
    for (int round = 1; round <= 10; ++round) expect_all(store.pushpull(keys, values), 3.0F);
    store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
    for (int round = 1; round <= 20; ++round)
      expect_all(store.pushpull(keys, values), static_cast<float>(3 * round + 3));
    for (int round = 21; round <= 25; ++round) {
      store.push(keys, values);
      expect_all(store.pull(keys), static_cast<float>(3 * round + 3));
    }
    store.barrier();
  });
}

TEST_P(DisturbedNetwork, PushesThatCountAsTheyComeAreCountedOnce) {
  with_stores({.type = "ps_async", .in_step = false}, [](KVStore& store) {
    constexpr int kPushes = 60;
    for (int key = 0; key < 4; ++key) store.init(key, Tensor::zeros({10}));
    store.init("rows", Tensor::zeros({6, 2}));
    store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
    for (int i = 0; i < kPushes; ++i) {
      for (int key = 0; key < 4; ++key) store.push(key, Tensor::full({10}, store.rank() + 1.0));
      store.row_sparse_push("rows", {{store.rank(), 5}, Tensor::full({2, 2}, 1.0)});
    }
    store.barrier();
    for (int key = 0; key < 4; ++key)
      EXPECT_EQ(floats_of(store.pull(key)), std::vector<float>(10, 3 * kPushes)) << "key " << key;
    EXPECT_EQ(floats_of(store.row_sparse_pull("rows", {0, 4, 5}).rows),
              (std::vector<float>{kPushes, kPushes, 0, 0, kDisturbedWorkers * kPushes,
                                  kDisturbedWorkers * kPushes}));
    store.barrier();
  });
}

TEST_P(DisturbedNetwork, TrainingInStepHasTheBitsOfAGoodOne) {
  for (const optim::OptimizerPtr& rule : {optim::adam({}), optim::lamb({.clip_norm = 0.1})}) {
    const auto expected = testing::train_in_step(*local_mode(), rule);
    room_.as_workers([&](Mode& mode) {
      EXPECT_TRUE(testing::train_in_step(mode, rule) == expected) << rule->name();
    });
  }
  proxies_.expect_disturbed();
}

}  // namespace
}  // namespace lockstep::kvstore
