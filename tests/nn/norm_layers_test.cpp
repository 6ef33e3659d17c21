// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/functional.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using autograd::ModeScope;
using testing::drawn;
using testing::expect_close;
using testing::message_of;
using testing::run_both_ways;
using Floats = std::vector<float>;

Floats contents_of(const Block& block, const std::string& name) {
  return block.parameter(name).data().to_vector<float>();
}

std::shared_ptr<BatchNorm> made_norm(const BatchNormOptions& options = {}) {
  const auto layer = batch_norm(options);
  layer->initialize();
  return layer;
}

// Mean 2 and variance 1 in its one channel.
Tensor two_samples() { return Tensor::from(Floats{1, 3}, {2, 1}); }

TEST(BatchNorm, MovesItsStatisticsInTrainModeOnly) {
  const auto layer = made_norm({.momentum = 0.75});
  (*layer)(two_samples());
  EXPECT_EQ(contents_of(*layer, "running_mean"), (Floats{0}));
  const ModeScope train(true);
  (*layer)(two_samples() * 2.0);  // mean 4, variance 4, which two values make an unbiased 8
  EXPECT_EQ(contents_of(*layer, "running_mean"), (Floats{1}));
  EXPECT_EQ(contents_of(*layer, "running_var"), (Floats{2.75}));
}

TEST(BatchNorm, UsesTheRunningStatisticsInPredictMode) {
  const auto layer = made_norm({.epsilon = 0.0, .channels = 1});
  layer->parameter("running_mean").set_data(full({1}, 1.0));
  layer->parameter("running_var").set_data(full({1}, 4.0));
  EXPECT_EQ((*layer)(two_samples()).to_vector<float>(), (Floats{0, 1}));
  const ModeScope train(true);
  EXPECT_EQ((*layer)(two_samples()).to_vector<float>(), (Floats{-1, 1}));
}

TEST(BatchNorm, WithGlobalStatisticsNeverMovesThem) {
  const auto layer = made_norm({.use_global_stats = true});
  const ModeScope train(true);
  expect_close((*layer)(two_samples()), two_samples(), 1e-4);
  EXPECT_EQ(contents_of(*layer, "running_mean"), (Floats{0}));
}

TEST(BatchNorm, MovesItsStatisticsWhileRecordedAndCompiled) {
  const auto eager = made_norm(), compiled = made_norm(), recorded = made_norm();
  const Tensor x = drawn({4, 3, 2, 2}, 1);
  compiled->hybridize();
  for (int i = 0; i < 3; ++i) {
    const ModeScope train(true);
    expect_close((*compiled)(x), (*eager)(x), 1e-6);
    const autograd::RecordScope record;
    autograd::backward(sum((*recorded)(x)));
  }
  for (const char* name : {"running_mean", "running_var"}) {
    const Tensor expected = eager->parameter(name).data();
    expect_close(compiled->parameter(name).data(), expected, 1e-6);
    expect_close(recorded->parameter(name).data(), expected, 1e-6);
  }
  EXPECT_NE(contents_of(*eager, "running_mean"), (Floats{0, 0, 0}));
  expect_close((*compiled)(x), (*eager)(x), 1e-6);  // predict mode is another executable
}

TEST(BatchNorm, FrozenKeepsItsStatisticsAlsoWhenCompiledBefore) {
  const auto layer = made_norm();
  layer->hybridize();
  const ModeScope train(true);
  (*layer)(two_samples());
  const Floats before = contents_of(*layer, "running_mean");
  layer->freeze();
  (*layer)(two_samples());
  EXPECT_EQ(contents_of(*layer, "running_mean"), before);
  layer->unfreeze();
  (*layer)(two_samples());
  EXPECT_NE(contents_of(*layer, "running_mean"), before);
}

TEST(BatchNorm, CompiledWhileFrozenMovesItsStatisticsOnceItIsNot) {
  const auto layer = made_norm();
  layer->hybridize();
  layer->freeze();
  const ModeScope train(true);
  (*layer)(two_samples());
  EXPECT_EQ(contents_of(*layer, "running_mean"), (Floats{0}));
  layer->unfreeze();
  (*layer)(two_samples());
  EXPECT_NE(contents_of(*layer, "running_mean"), (Floats{0}));
}

TEST(BatchNorm, HasTheParametersThatItIsAskedFor) {
  const auto layer = made_norm({.center = false, .scale = false});
  (*layer)(two_samples());
  ASSERT_EQ(layer->parameters().size(), 2u);
  EXPECT_EQ(layer->parameters()[0].name, "running_mean");
  EXPECT_FALSE(layer->parameters()[0].parameter.options().trainable);
  EXPECT_EQ(made_norm()->parameters().size(), 4u);
}

TEST(Norms, AreTheOpsWithOnesAndZeros) {
  const Tensor x = drawn({2, 4, 3, 3}, 1);
  expect_close(run_both_ways(*layer_norm(), x), lockstep::layer_norm(x, ones({3}), zeros({3})),
               1e-5);
  expect_close(run_both_ways(*group_norm(2), x), lockstep::group_norm(x, ones({4}), zeros({4}), 2),
               1e-5);
  expect_close(run_both_ways(*instance_norm(), x),
               lockstep::instance_norm(x, ones({4}), zeros({4})), 1e-5);
  expect_close(run_both_ways(*batch_norm(), x),
               batch_norm_inference(x, ones({4}), zeros({4}), zeros({4}), ones({4})), 1e-5);
}

TEST(Norms, HaveGammaAndBeta) {
  const Tensor x = drawn({2, 4, 3}, 1);
  const auto layer = layer_norm(
      {.epsilon = 1e-3, .gamma_init = init::constant(2), .beta_init = init::constant(3)});
  expect_close(run_both_ways(*layer, x),
               lockstep::layer_norm(x, full({3}, 2.0), full({3}, 3.0), 1e-3), 1e-5);
  EXPECT_EQ(group_norm(2)->description(), "GroupNorm(2)");
}

TEST(Norms, RefuseWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { group_norm(0); }), "group_norm: groups is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { (*made_norm())(ones({3})); }),
            "batch_norm: x has shape [3], expected 2 or more axes");
  const auto layer = layer_norm({.channels = 4});
  layer->initialize();
  EXPECT_EQ(message_of([&] { (*layer)(ones({2, 3})); }), "gamma: has shape [4], got [3]");
}

}  // namespace
}  // namespace lockstep::nn
