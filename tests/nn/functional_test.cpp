// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/functional.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using autograd::ModeScope;
using testing::message_of;
using Floats = std::vector<float>;

TEST(Functional, DropoutDropsInTrainModeOnly) {
  const RandomScope scope(random_key(1));
  const Tensor x = ones({1000});
  EXPECT_TRUE(nn::dropout(x, 0.5).same_as(x));
  {
    const ModeScope train(true);
    EXPECT_EQ(min(nn::dropout(x, 0.5)).item(), 0.0);
  }
  const autograd::RecordScope record;
  EXPECT_EQ(min(nn::dropout(x, 0.5)).item(), 0.0);
  const autograd::RecordScope predict(/*train_mode=*/false);
  EXPECT_TRUE(nn::dropout(x, 0.5).same_as(x));
}

TEST(Functional, DropoutInPredictModeNeedsNoScopeButASoundCall) {
  EXPECT_NO_THROW(nn::dropout(ones({2}), 0.5));
  EXPECT_EQ(message_of([] { nn::dropout(ones({2}), 1.0); }),
            "dropout: p is 1, expected 0 <= p < 1");
  EXPECT_EQ(message_of([] { nn::dropout(Tensor(), 0.5); }), "dropout: input 0 is undefined");
}

class BatchNormModes : public ::testing::Test {
 protected:
  BatchNormResult run(double momentum = 0.75) const {
    return nn::batch_norm(x, ones({1}), zeros({1}), mean, var, momentum, 0.0);
  }
  const Tensor x = Tensor::from(Floats{1, 3}, {2, 1});  // mean 2, var 1
  const Tensor mean = full({1}, 4.0);
  const Tensor var = full({1}, 9.0);
};

TEST_F(BatchNormModes, TrainModeTakesTheBatchsStatisticsAndMovesTheRunningOnes) {
  const ModeScope train(true);
  const BatchNormResult result = run();
  EXPECT_EQ(result.y.to_vector<float>(), (Floats{-1, 1}));
  EXPECT_EQ(result.mean.to_vector<float>(), (Floats{3.5}));
  EXPECT_EQ(result.var.to_vector<float>(), (Floats{7.25}));  // of two values, 2 unbiased
  EXPECT_EQ(mean.item(), 4.0);
}

TEST_F(BatchNormModes, PredictModeTakesTheRunningStatisticsAndLeavesThem) {
  const BatchNormResult result = run();
  EXPECT_EQ(result.y.to_vector<float>(), (Floats{-1, -1.0f / 3}));
  EXPECT_TRUE(result.mean.same_as(mean));
  EXPECT_TRUE(result.var.same_as(var));
}

TEST_F(BatchNormModes, RunningStatisticsHaveNoHistory) {
  autograd::attach_grad(x);
  const autograd::RecordScope record;
  const BatchNormResult result = run();
  EXPECT_TRUE(autograd::requires_grad(result.y));
  EXPECT_FALSE(autograd::requires_grad(result.mean));
  EXPECT_FALSE(autograd::requires_grad(result.var));
}

TEST_F(BatchNormModes, BadInputIsRefusedInBothModes) {
  for (bool training : {true, false}) {
    const ModeScope mode(training);
    EXPECT_EQ(message_of([&] { nn::batch_norm(x, var, var, Tensor(), var); }),
              "batch_norm: running statistics are undefined");
    EXPECT_EQ(message_of([&] { run(1.5); }), "batch_norm: momentum is 1.5, expected 0 to 1");
    EXPECT_EQ(message_of([&] { nn::batch_norm(Tensor(), var, var, mean, var); }),
              "batch_norm: input 0 is undefined");
  }
  const ModeScope train(true);
  EXPECT_EQ(message_of([&] { nn::batch_norm(x, var, var, ones({2}), var); }),
            "batch_norm: running statistics are float32[2], expected float32[1]");
}

}  // namespace
}  // namespace lockstep
