// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/sync_batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/layers.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/small_run.h"
#include "tests/train/step_net.h"

namespace lockstep::train {
namespace {

using testing::message_of, testing::Trained;

constexpr std::int64_t kNormBatch = 16;
constexpr int kNormSteps = 4;

template <class Norm>
nn::BlockPtr net_with(const Norm& norm) {
  return nn::sequential(nn::conv2d(6, {3, 3}, {.padding = {1, 1}}), norm(), nn::relu(),
                        nn::conv2d(5, {3, 3}), norm(), nn::relu(), nn::dense(testing::kClasses),
                        norm());
}
nn::BlockPtr synchronized_net() {
  return net_with([] { return nn::sync_batch_norm(); });
}
nn::BlockPtr plain_net() {
  return net_with([] { return nn::batch_norm(); });
}

// Samples [begin, end) of a step's global batch, of which each is the same however it is dealt.
data::Fields norm_samples(std::int64_t step, std::int64_t begin, std::int64_t end) {
  const RandomScope draws(random_key(7, static_cast<std::uint32_t>(step), 0));
  const Tensor images = normal({kNormBatch, 1, 8, 8}, 3.0, 2.0);
  const Tensor labels = randint(0, testing::kClasses, {kNormBatch});
  return {slice_axis(images, 0, begin, end).copy(), slice_axis(labels, 0, begin, end).copy()};
}

std::vector<data::Fields> norm_batches(const StepEngine& engine, std::int64_t step) {
  const std::int64_t size = kNormBatch / engine.shards();
  std::vector<data::Fields> shards;
  for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
    shards.push_back(norm_samples(step, s * size, (s + 1) * size));
  return shards;
}

StepEngine norm_engine(const nn::BlockPtr& net, std::int64_t shards, kvstore::Mode* mode,
                       int threads) {
  net->initialize(nn::init::fan_in(), 3);
  EngineOptions options{.shards = shards, .threads = threads, .seed = 3};
  options.mode = mode;
  options.bucket_bytes = 256;
  return StepEngine(net, testing::cross_entropy(), optim::sgd({.momentum = 0.9}),
                    data::infos_of(norm_samples(0, 0, kNormBatch / shards)), options);
}

Trained train_norms(StepEngine& engine) {
  Trained result;
  for (int step = 0; step < kNormSteps; ++step)
    result.losses.push_back(engine.run(step, 0.05, norm_batches(engine, step)).loss);
  result.sha256 = engine.params_sha256();
  return result;
}

TEST(SyncBatchNorm, HasTheSameBitsOnAnyNumberOfWorkersAndThreads) {
  StepEngine one = norm_engine(synchronized_net(), 8, nullptr, 1);
  const Trained alone = train_norms(one);
  for (const int threads : {2, 3}) {
    StepEngine engine = norm_engine(synchronized_net(), 8, nullptr, threads);
    EXPECT_EQ(train_norms(engine), alone) << threads << " threads";
  }
  for (const int workers : {2, 3, 5, 8})
    testing::as_ranks(workers, [&](comm::Communicator& communicator) {
      const auto mode = kvstore::allreduce_mode(communicator);
      StepEngine engine = norm_engine(synchronized_net(), 8, mode.get(), 1 + workers % 3);
      EXPECT_EQ(train_norms(engine), alone) << workers << " workers";
    });
}

TEST(SyncBatchNorm, LearnsInEightShardsAsBatchNormDoesInOne) {
  const nn::BlockPtr net = synchronized_net(), plain = plain_net();
  StepEngine eight = norm_engine(net, 8, nullptr, 2), one = norm_engine(plain, 1, nullptr, 1);
  const Trained by_eight = train_norms(eight), by_one = train_norms(one);
  for (int step = 0; step < kNormSteps; ++step)
    EXPECT_NEAR(by_eight.losses[static_cast<std::size_t>(step)],
                by_one.losses[static_cast<std::size_t>(step)], 2e-5)
        << "step " << step;
  eight.store(*net);
  one.store(*plain);
  for (const char* name : {"1.running_mean", "1.running_var", "4.running_var", "0.weight"}) {
    const auto ours = net->parameter(name).data().to_vector<float>();
    const auto theirs = plain->parameter(name).data().to_vector<float>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], 1e-4 * (1.0 + std::abs(theirs[i]))) << name << " " << i;
  }
}

// Batches of two samples have other statistics than all sixteen: what meets makes the difference.
TEST(SyncBatchNorm, IsNotBatchNormOfEachShard) {
  StepEngine together = norm_engine(synchronized_net(), 8, nullptr, 1);
  StepEngine apart = norm_engine(plain_net(), 8, nullptr, 1);
  EXPECT_GT(std::abs(train_norms(together).losses[0] - train_norms(apart).losses[0]), 1e-3);
}

TEST(SyncBatchNorm, AShardThatFailsEndsTheStepForAllAndTheNextOneIsWhole) {
  for (const int threads : {1, 3}) {
    StepEngine untouched = norm_engine(synchronized_net(), 8, nullptr, 1);
    StepEngine engine = norm_engine(synchronized_net(), 8, nullptr, threads);
    std::vector<data::Fields> bad = norm_batches(engine, 0);
    bad[5][1].data<std::int64_t>()[0] = 99;  // no class
    EXPECT_NE(message_of<InvalidArgument>([&] { engine.run(0, 0.05, bad); }).find("99"),
              std::string::npos);
    EXPECT_EQ(train_norms(engine), train_norms(untouched));
  }
}

TEST(SyncBatchNorm, OutsideOfAStepIsBatchNorm) {
  const nn::BlockPtr synced = nn::sync_batch_norm(), plain = nn::batch_norm();
  for (const nn::BlockPtr& net : {synced, plain}) net->initialize(nn::init::fan_in(), 3);
  const Tensor x = norm_samples(0, 0, 4)[0];
  const auto forward = [&](nn::Block& net) {
    const autograd::RecordScope train_mode;
    return net(x).to_vector<float>();
  };
  const std::vector<float> ours = forward(*synced), theirs = forward(*plain);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5);
  const auto var = synced->parameter("running_var").data().to_vector<float>();
  EXPECT_NEAR(var[0], plain->parameter("running_var").data().to_vector<float>()[0], 1e-5);
  const std::vector<float> after = (*synced)(x).to_vector<float>();
  const std::vector<float> expected = (*plain)(x).to_vector<float>();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], expected[i], 1e-5);
}

}  // namespace
}  // namespace lockstep::train
