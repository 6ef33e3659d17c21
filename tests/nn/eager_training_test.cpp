// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/loss.h"
#include "lockstep/ops/reduce.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;

struct Losses {
  double first = 0.0, last = 0.0;
};

// Plain gradient descent, op by op; labels are 0, 1, 0, 1, ...
Losses train(Block& net, const Tensor& x, int steps, double rate) {
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < x.shape(0); ++i) classes.push_back(i % 2);
  const Tensor labels = Tensor::from(classes, {x.shape(0)});
  net.initialize(init::xavier(), 7);
  Losses losses;
  for (int step = 0; step < steps; ++step) {
    const RandomScope draws(random_key(1, static_cast<std::uint32_t>(step)));
    Tensor loss;
    {
      const autograd::RecordScope record;
      loss = mean(softmax_cross_entropy(net(x), labels));
      autograd::backward(loss);
    }
    for (const auto& [name, parameter] : net.parameters())
      if (parameter.options().trainable)
        parameter.set_data(parameter.data().detach() - parameter.grad() * rate);
    (step == 0 ? losses.first : losses.last) = loss.item();
  }
  return losses;
}

void expect_learns(Block& net, const Tensor& x, int steps = 60, double rate = 0.1) {
  const Losses losses = train(net, x, steps, rate);
  EXPECT_LT(losses.last, 0.5 * losses.first) << losses.first << " to " << losses.last;
}

TEST(EagerTraining, AConvolutionalNetLearns) {
  const auto net = sequential(conv2d(8, 3, {.activation = "relu"}), batch_norm(), max_pool2d(2),
                              dropout(0.1), dense(2));
  expect_learns(*net, drawn({16, 2, 8, 8}, 1));
}

TEST(EagerTraining, ARecurrentNetLearns) {
  const auto net =
      sequential(lstm(16, {.layout = "NTC", .i2h_bias_init = init::lstm_bias()}), dense(2));
  expect_learns(*net, drawn({16, 4, 3}, 2), 60, 0.5);
}

TEST(EagerTraining, ATransformerLearns) {
  const auto net = sequential(dense(16, {.flatten = false}),
                              transformer_encoder_block(16, 2, {.attention_dropout = 0.1}),
                              layer_norm(), dense(2));
  expect_learns(*net, drawn({16, 4, 3}, 3));
}

TEST(EagerTraining, IsTheSameEachTime) {
  const auto run = [] {
    const auto net = sequential(dense(8, {.activation = "relu"}), dropout(0.5), dense(2));
    train(*net, drawn({16, 4}, 4), 5, 0.1);
    return net->parameter("2.weight").data().to_vector<float>();
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace lockstep::nn
