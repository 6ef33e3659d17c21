// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>

#include "lockstep/comm/errors.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/kvstore/fake_group.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// Several buckets' worth of parameters, batch norm and dropout.
class Net final : public nn::Block {
 public:
  Net()
      : conv_(add_parameter("conv", {8, 3, 3, 3})),
        gamma_(add_parameter("gamma", {8}, {.init = nn::init::one()})),
        beta_(add_parameter("beta", {8}, {.init = nn::init::zero()})),
        mean_(add_parameter("mean", {8}, {.init = nn::init::zero(), .trainable = false})),
        var_(add_parameter("var", {8}, {.init = nn::init::one(), .trainable = false})),
        hidden_(add_parameter("hidden", {64, 8 * 6 * 6})),
        output_(add_parameter("output", {5, 64})) {}

  Tensor forward(const Tensor& x) override {
    const auto normed = nn::batch_norm(lockstep::conv(x, conv_.data(), {}, {.padding = {1}}),
                                       gamma_.data(), beta_.data(), mean_.data(), var_.data());
    mean_.update(normed.mean);
    var_.update(normed.var);
    const Tensor y = lockstep::dense(relu(normed.y), hidden_.data());
    return lockstep::dense(nn::dropout(relu(y), 0.25), output_.data());
  }

 private:
  nn::Parameter conv_, gamma_, beta_, mean_, var_, hidden_, output_;
};

constexpr std::int64_t kShards = 8, kShardBatch = 2;
constexpr int kSteps = 3;

data::Fields shard_batch(std::int64_t step, std::int64_t shard) {
  const RandomScope draws(
      random_key(9, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
  return {normal({kShardBatch, 3, 6, 6}), randint(0, 5, {kShardBatch})};
}

Tensor cross_entropy(const Tensor& output, const Tensor& label) {
  return softmax_cross_entropy(output, label);
}

struct Trained {
  std::vector<double> losses;
  std::string sha256;
  bool operator==(const Trained&) const = default;
};

StepEngine make_engine(const optim::OptimizerPtr& rule, kvstore::Mode* mode, int threads) {
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  const std::vector<TensorInfo> fields{{{kShardBatch, 3, 6, 6}, DType::float32, {}},
                                       {{kShardBatch}, DType::int64, {}}};
  EngineOptions options{.shards = kShards, .threads = threads, .seed = 3};
  options.mode = mode;
  options.bucket_bytes = 4096;
  return StepEngine(net, cross_entropy, rule, fields, options);
}

std::vector<data::Fields> batches(const StepEngine& engine, std::int64_t step) {
  std::vector<data::Fields> shards;
  for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
    shards.push_back(shard_batch(step, s));
  return shards;
}

Trained train(const optim::OptimizerPtr& rule, kvstore::Mode* mode, int threads) {
  StepEngine engine = make_engine(rule, mode, threads);
  Trained result;
  for (int step = 0; step < kSteps; ++step)
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
    StepEngine engine = make_engine(rule, mode.get(), threads);
    both_are_made.arrive_and_wait();
    const auto alone = kvstore::local_mode();
    for (int step = 0; step < kSteps; ++step) {
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
    results[static_cast<std::size_t>(communicator.rank())] = train(rule, mode.get(), threads);
  });
  return results;
}

TEST(StepEngineWorkers, GiveTheBitsOfOneProcessOnAnyNumberOfWorkersAndThreads) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const Trained alone = train(rule, nullptr, 1);
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
      with += !mode->synchronize(state, kShards)->memory().empty();
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
  EXPECT_EQ(message_of<InvalidArgument>([&] { train(optim::sgd({}), &mode, 1); }),
            "train: 9 workers cannot share 8 shards: each needs one");
}

TEST(StepEngineWorkers, NameTheShardWhoseDataIsBadByItsNumberInTheBatch) {
  FakeMode mode(1, 2);
  const auto net = std::make_shared<Net>();
  net->initialize(nn::init::fan_in(), 3);
  EngineOptions options{.shards = kShards};
  options.mode = &mode;
  StepEngine engine(net, cross_entropy, optim::sgd({}), data::infos_of(shard_batch(0, 0)), options);
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
        EXPECT_EQ(train_with_a_death(rule, threads, dies_at), train(rule, nullptr, 1))
            << rule->name() << ", " << threads << " threads, step " << dies_at;
}

}  // namespace
}  // namespace lockstep::train
