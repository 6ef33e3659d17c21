// SPDX-License-Identifier: Apache-2.0
// The trainer's compiled step on layers that neither drop nor draw: what a loop by hand gives.
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/graph/graphs.h"

namespace lockstep::train {
namespace {

using testing::expect_close;
using Labels = std::vector<std::int64_t>;
using MakeNet = std::function<nn::BlockPtr()>;

constexpr double kRate = 0.1;

void step_by_hand(nn::Block& net, const nn::Loss& loss, const Tensor& x, const Tensor& labels) {
  const autograd::RecordScope record;
  autograd::backward(mean(loss(net(x), labels)));
  for (const auto& [name, parameter] : net.parameters())
    if (parameter.options().trainable)
      parameter.set_data(parameter.data().detach() - parameter.grad() * kRate);
}

template <class L>
void expect_same_step(const MakeNet& make, const L& loss, const Tensor& x, const Tensor& labels) {
  const nn::BlockPtr by_hand = make(), trained = make();
  for (nn::Block* net : {by_hand.get(), trained.get()}) {
    net->initialize(nn::init::fan_in(), 5);
    (*net)(x);  // all shapes are known, so that the trainer initialises nothing
  }
  step_by_hand(*by_hand, loss, x, labels);
  Trainer trainer(trained, loss, optim::sgd({.learning_rate = kRate}),
                  {.global_batch = x.shape(0), .shards = 1});
  trainer.fit(std::make_shared<data::ArrayDataset>(data::Fields{x, labels}), {.steps = 1});
  for (const auto& [name, parameter] : by_hand->parameters()) {
    SCOPED_TRACE(name);
    expect_close(trained->parameter(name).data(), parameter.data(), 1e-5);
  }
}

// A small net of images around the layer.
MakeNet around(const std::function<nn::BlockPtr()>& layer) {
  return [layer] {
    auto net = nn::sequential(nn::conv2d(4, 3, {.padding = 1, .inputs = 2}));
    net->add(layer());
    net->add(nn::dense(3));
    return net;
  };
}

TEST(LayersInSteps, OfImagesGiveWhatALoopByHandGives) {
  const RandomScope draws(random_key(1));
  const Tensor x = normal({4, 2, 6, 6}), labels = Tensor::from(Labels{0, 2, 1, 2}, {4});
  const std::vector<std::pair<const char*, std::function<nn::BlockPtr()>>> layers{
      {"nearest", [] { return nn::upsample({.scale = 2.0}); }},
      {"linear",
       [] {
         return nn::upsample({.size = {9, 4}, .mode = "linear"});
       }},
      {"shuffle", [] { return nn::pixel_shuffle(2); }},
      {"unshuffle", [] { return nn::pixel_unshuffle(3); }},
      {"dilated", [] { return nn::max_pool2d(2, {.stride = 1, .dilation = 2}); }},
      {"adaptive max",
       [] {
         return nn::adaptive_max_pool2d({4, 5});
       }},
      {"adaptive avg",
       [] {
         return nn::adaptive_avg_pool2d({4, 5});
       }},
      {"pad", [] { return nn::pad2d(2, {.mode = "circular"}); }},
      {"circular", [] { return nn::conv2d(3, 3, {.padding = 2, .padding_mode = "circular"}); }},
      {"spectral", [] { return nn::spectral_norm(nn::conv2d(3, 3)); }}};
  for (const auto& [name, layer] : layers) {
    SCOPED_TRACE(name);
    expect_same_step(around(layer), nn::SoftmaxCrossEntropyLoss(), x, labels);
  }
}

TEST(LayersInSteps, HooksAreTracedWithTheNet) {
  const RandomScope draws(random_key(1));
  const Tensor x = normal({4, 3}), labels = Tensor::from(Labels{0, 2, 1, 2}, {4});
  const MakeNet make = [] {
    auto net = nn::sequential(nn::dense(5, {.inputs = 3}), nn::dense(3));
    (*net)[0].register_forward_hook(
        [](nn::Block&, const std::vector<Tensor>&, const std::vector<Tensor>& y) {
          return std::vector<Tensor>{square(y[0])};
        });
    return net;
  };
  expect_same_step(make, nn::SoftmaxCrossEntropyLoss(), x, labels);
}

TEST(LayersInSteps, WeightedLossIsTheMeanOverTheShardsCountedSamples) {
  const RandomScope draws(random_key(1));
  const Tensor x = normal({4, 3}), labels = Tensor::from(Labels{0, -1, 1, 2}, {4});
  const nn::SoftmaxCrossEntropyLoss loss(
      {.smoothing = 0.1, .class_weights = {1.0, 3.0, 0.5}, .ignore_label = -1});
  expect_same_step([] { return nn::sequential(nn::dense(3, {.inputs = 3})); }, loss, x, labels);
}

TEST(LayersInSteps, PaddingsRowStaysZero) {
  const Tensor x = Tensor::from(Labels{0, 2, 1, 2, 2, 3}, {3, 2});
  const Tensor labels = Tensor::from(Labels{0, 1, 1}, {3});
  const MakeNet make = [] {
    return nn::sequential(nn::embedding(4, 5, {.padding_index = 2}), nn::dense(2));
  };
  expect_same_step(make, nn::SoftmaxCrossEntropyLoss(), x, labels);
  const nn::BlockPtr net = make();
  Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(), optim::adam({.weight_decay = 0.1}),
                  {.global_batch = 3, .shards = 1});
  trainer.fit(std::make_shared<data::ArrayDataset>(data::Fields{x, labels}), {.steps = 3});
  const std::vector<float> weight = net->parameter("0.weight").data().to_vector<float>();
  for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_EQ(weight[i] == 0.0F, i / 5 == 2) << i;
}

}  // namespace
}  // namespace lockstep::train
