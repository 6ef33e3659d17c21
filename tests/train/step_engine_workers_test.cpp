// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>

#include "lockstep/comm/errors.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/kvstore/fake_group.h"
#include "tests/message.h"
#include "tests/train/step_net.h"

namespace lockstep::train {
namespace {

using testing::batches, testing::kStepNetShards, testing::kStepNetSteps, testing::message_of;
using testing::shard_batch, testing::StepNet, testing::Trained;

Trained train_worker(const optim::OptimizerPtr& rule, kvstore::Mode* mode, int threads) {
  StepEngine engine = testing::step_engine(kStepNetShards, rule, mode, threads);
  Trained result;
  for (int step = 0; step < kStepNetSteps; ++step)
    result.losses.push_back(engine.run(step, 0.05, batches(engine, step)).loss);
  result.sha256 = engine.params_sha256();
  return result;
}

// Of two workers the second ends at that step, while the first waits for its sums.
Trained train_with_a_death(const optim::OptimizerPtr& rule, int threads, int dies_at) {
  Trained result;
  std::barrier both_are_made(2);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    StepEngine engine = testing::step_engine(kStepNetShards, rule, mode.get(), threads);
    both_are_made.arrive_and_wait();
    const auto alone = kvstore::local_mode();
    for (int step = 0; step < kStepNetSteps; ++step) {
      if (step == dies_at && communicator.rank() == 1) return communicator.abort("it died");
      double loss = 0.0;
      try {
        loss = engine.run(step, 0.05, batches(engine, step)).loss;
      } catch (const comm::Aborted&) {
        engine.replan(*alone);
        loss = engine.run(step, 0.05, batches(engine, step)).loss;
      }
      if (communicator.rank() == 0) result.losses.push_back(loss);
    }
    if (communicator.rank() == 0) result.sha256 = engine.params_sha256();
  });
  return result;
}

std::vector<Trained> train_workers(const optim::OptimizerPtr& rule, int workers, int threads) {
  std::vector<Trained> results(static_cast<std::size_t>(workers));
  std::vector<std::string> hosts;  // an odd number of workers has as many hosts
  for (int rank = 0; rank < workers; ++rank)
    hosts.push_back(workers % 2 == 1 ? std::to_string(rank) : "here");
  testing::as_ranks(hosts, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    results[static_cast<std::size_t>(communicator.rank())] =
        train_worker(rule, mode.get(), threads);
  });
  return results;
}

TEST(StepEngineWorkers, GiveTheBitsOfOneProcessOnAnyNumberOfWorkersAndThreads) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const Trained alone = train_worker(rule, nullptr, 1);
    for (int workers : {1, 2, 3, 8})
      for (int threads : {1, 2})
        for (const Trained& one : train_workers(rule, workers, threads))
          ASSERT_EQ(one, alone) << rule->name() << ", " << workers << " x " << threads;
  }
}

TEST(StepEngineWorkers, SumInTheMemoryThatTheyShareWhereEachHasOneNode) {
  const auto has_memory = [](int workers) {
    std::atomic<int> with = 0;
    testing::as_ranks(workers, [&](comm::Communicator& communicator) {
      const auto mode = kvstore::allreduce_mode(communicator);
      kvstore::FlatLayout layout;
      layout.add({.count = 10});
      const auto rule = optim::sgd({});
      kvstore::FlatState state(layout, rule);
      with += !mode->synchronize(state, kStepNetShards)->memory().empty();
    });
    return with == workers;
  };
  EXPECT_TRUE(has_memory(2));
  EXPECT_TRUE(has_memory(8));
  EXPECT_FALSE(has_memory(5));  // whose ranges are no subtrees
}

// A mode of which one thing is as told.
class FakeMode : public kvstore::Mode {
 public:
  FakeMode(int rank, int workers) : group_(rank, workers) {}
  kvstore::Group& group() override { return group_; }
  std::unique_ptr<kvstore::Synchronizer> synchronize(kvstore::FlatState& state,
                                                     std::int64_t shards) override {
    return local_->synchronize(state, shards);
  }

 private:
  testing::FakeGroup group_;
  std::unique_ptr<kvstore::Mode> local_ = kvstore::local_mode();
};

TEST(StepEngineWorkers, NeedAShardEach) {
  FakeMode mode(0, 9);
  EXPECT_EQ(message_of<InvalidArgument>([&] { train_worker(optim::sgd({}), &mode, 1); }),
            "train: 9 workers cannot share 8 shards: each needs one");
}

TEST(StepEngineWorkers, NameTheShardWhoseDataIsBadByItsNumberInTheBatch) {
  FakeMode mode(1, 2);
  const auto net = std::make_shared<StepNet>();
  net->initialize(nn::init::fan_in(), 3);
  EngineOptions options{.shards = kStepNetShards};
  options.mode = &mode;
  StepEngine engine(net, testing::mean_cross_entropy, optim::sgd({}),
                    data::infos_of(shard_batch(0, 0)), options);
  std::vector<data::Fields> shards;
  for (std::int64_t s = 4; s < 8; ++s) shards.push_back(shard_batch(0, s));
  shards[1][0].data<float>()[7] = std::nanf("");
  EXPECT_EQ(engine.find_bad_op(0, shards), "the data of shard 5");
}

// Nothing is left of a step that fails, wherever it does: the same step again gives the bits of the
// run that nothing disturbed. Here a worker dies at the step's begin, and the other goes on
// alone, in a new membership.
TEST(StepEngineWorkers, GoOnAloneAfterALostPeerWithTheBitsOfAnUndisturbedRun) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules)
    for (int threads : {1, 2})
      for (int dies_at : {0, 1, 2})
        EXPECT_EQ(train_with_a_death(rule, threads, dies_at), train_worker(rule, nullptr, 1))
            << rule->name() << ", " << threads << " threads, step " << dies_at;
}

}  // namespace
}  // namespace lockstep::train
