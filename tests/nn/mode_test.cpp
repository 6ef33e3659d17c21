// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"

// Which mode a block computes in: its caller's, its own, or predict mode because it is frozen.
namespace lockstep::nn {
namespace {

using autograd::ModeScope;
using Floats = std::vector<float>;

Tensor four_samples() { return Tensor::from(Floats{1, 3, 2, 8}, {4, 1}); }

std::shared_ptr<Sequential> net_with_modes() {
  const auto net = sequential(batch_norm(), dropout(0.5));
  net->initialize();
  net->complete_shapes({four_samples().info()});
  return net;
}

Floats run(Block& block, bool train) {
  const RandomScope draws(random_key(1));
  const ModeScope mode(train);
  return block(four_samples()).to_vector<float>();
}

// Both ways of running a block know the modes.
class BlockMode : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Sequential> net() const {
    const auto result = net_with_modes();
    if (GetParam()) result->hybridize();
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(Runs, BlockMode, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Hybridized" : "OpByOp"; });

TEST_P(BlockMode, IsTheCallersAtFirst) {
  const auto block = net();
  EXPECT_NE(run(*block, true), run(*block, false));
}

TEST_P(BlockMode, FrozenBlocksPredict) {
  const auto block = net();
  const Floats predicted = run(*block, false), trained = run(*block, true);
  block->parameter("0.running_mean").set_data(zeros({1}));
  block->parameter("0.running_var").set_data(ones({1}));
  block->freeze();
  EXPECT_EQ(run(*block, true), predicted);
  EXPECT_EQ(block->parameter("0.running_mean").data().item(), 0.0);
  block->unfreeze();
  EXPECT_EQ(run(*block, true), trained);
}

TEST_P(BlockMode, BlocksThatWantNoGradientPredict) {
  const auto block = net();
  const Floats predicted = run(*block, false);
  for (const auto& [name, parameter] : block->parameters())
    parameter.set_grad_mode(autograd::GradMode::off);
  EXPECT_EQ(run(*block, true), predicted);
}

TEST_P(BlockMode, OneFrozenParameterIsNoFrozenBlock) {
  const auto block = net();
  const Floats trained = run(*block, true);
  block->parameter("0.gamma").set_trainable(false);
  EXPECT_EQ(run(*block, true), trained);
}

TEST_P(BlockMode, MayBeSetForEachBlock) {
  const auto block = net();
  const Floats predicted = run(*block, false);
  block->set_mode(Mode::predict);
  EXPECT_EQ(run(*block, true), predicted);
  (*block)[1].set_mode(Mode::train);  // the child's own comes first
  const Floats dropped = run(*block, true);
  EXPECT_NE(dropped, predicted);
  EXPECT_EQ(run(*block, false), dropped);
  block->set_mode(Mode::inherit);
  (*block)[1].set_mode(Mode::inherit);
  EXPECT_EQ(run(*block, false), predicted);
}

TEST_P(BlockMode, ThatWasSetComesBeforeFreezing) {
  const auto block = net();
  const Floats trained = run(*block, true);
  block->freeze();
  block->set_mode(Mode::train);  // not for what is frozen inside of it
  (*block)[0].set_mode(Mode::train);
  EXPECT_EQ(run(*block, true), trained);
}

// With a rate of 0 the net stays as it is, so that training and evaluation must say the same.
TEST(BlockModeInTraining, FrozenBatchNormTrainsWithTheStatisticsItIsEvaluatedWith) {
  for (const bool frozen : {true, false}) {
    const auto net = sequential(dense(3), batch_norm(), dense(1));
    if (frozen) (*net)[1].freeze();
    train::Trainer trainer(net, L2Loss(), optim::sgd({.learning_rate = 0.0}),
                           {.global_batch = 8, .shards = 1});
    const RandomScope draws(random_key(2));
    const auto set = std::make_shared<data::ArrayDataset>(
        data::Fields{normal({8, 5}, 3.0, 2.0), normal({8, 1})});
    const train::FitResult result = trainer.fit(set, {.steps = 1, .validation = set});
    const double difference = std::abs(result.train_loss - result.validation.loss);
    if (frozen)
      EXPECT_LT(difference, 1e-5);
    else
      EXPECT_GT(difference, 1e-3);
  }
}

TEST(BlockModeInTraining, AnEvaluatorSeesAModeThatWasSetSince) {
  const auto net = net_with_modes();
  const auto set =
      std::make_shared<data::ArrayDataset>(data::Fields{four_samples(), zeros({4, 1})});
  train::Evaluator evaluator(net, L2Loss());
  const double predicted = evaluator.run(*set).loss;
  (*net)[0].set_mode(Mode::train);
  EXPECT_NE(evaluator.run(*set).loss, predicted);
  (*net)[0].set_mode(Mode::inherit);
  EXPECT_EQ(evaluator.run(*set).loss, predicted);
}

}  // namespace
}  // namespace lockstep::nn
