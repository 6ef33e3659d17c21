// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kDeepWidth = 4;
constexpr int kDeep = 3200;

// Each layer adds a little, so that neither values nor gradients vanish on the way.
class Layer final : public nn::Block {
 public:
  Layer()
      : weight_(add_parameter("weight", {kDeepWidth, kDeepWidth},
                              {.init = nn::init::constant(1e-4)})) {}
  Tensor forward(const Tensor& x) override { return x + dense(x, weight_.data()); }

 private:
  nn::Parameter weight_;
};

nn::BlockPtr deep_net(int layers) {
  auto net = std::make_shared<nn::Sequential>();
  for (int i = 0; i < layers; ++i) net->add(std::make_shared<Layer>());
  net->initialize();
  return net;
}

data::Fields deep_batch() {
  const RandomScope draws(random_key(2));
  return {normal({3, kDeepWidth}), Tensor::from(std::vector<std::int64_t>{0, 3, 1}, {3})};
}

StepEngine engine_of(const nn::BlockPtr& net) {
  return {net,
          nn::SoftmaxCrossEntropyLoss(),
          optim::sgd(),
          data::infos_of(deep_batch()),
          {.shards = 1}};
}

void expect_near_elements(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], y[i], 2e-5 * std::max(1.0F, std::abs(x[i])));
}

TEST(DeepNet, IsCompiledToWhatItComputesOpByOp) {
  const nn::BlockPtr net = deep_net(kDeep);
  const Tensor x = deep_batch()[0], expected = (*net)(x);
  net->hybridize();
  expect_near_elements((*net)(x), expected);
  net->parameter("3199.weight").set_data(full({kDeepWidth, kDeepWidth}, 1.0));
  const Tensor changed = (*net)(x);
  net->hybridize(false);
  expect_near_elements(changed, (*net)(x));
}

TEST(DeepNet, IsTrainedStoredAndLoadedAsByHand) {
  constexpr double kRate = 0.5;
  const nn::BlockPtr net = deep_net(kDeep), by_hand = deep_net(kDeep);
  StepEngine engine = engine_of(net);
  engine.run(0, kRate, std::vector<data::Fields>{deep_batch()});
  engine.store(*net);
  {
    const autograd::RecordScope recording;
    const Tensor loss =
        mean(nn::SoftmaxCrossEntropyLoss()((*by_hand)(deep_batch()[0]), deep_batch()[1]));
    autograd::backward(loss);
  }
  for (const char* name : {"0.weight", "1599.weight", "3199.weight"}) {
    const nn::Parameter parameter = by_hand->parameter(name);
    const Tensor expected = parameter.data() - kRate * parameter.grad();
    expect_near_elements(net->parameter(name).data(), expected);
    EXPECT_NE(net->parameter(name).data().to_vector<float>(), parameter.data().to_vector<float>());
  }
  const std::string sha = engine.params_sha256();
  StepEngine other = engine_of(deep_net(kDeep));
  EXPECT_NE(other.params_sha256(), sha);
  other.load(*net);
  EXPECT_EQ(other.params_sha256(), sha);
}

std::int64_t steps_of(int layers) {
  const std::string text = engine_of(deep_net(layers)).executable().str();
  return std::count(text.begin(), text.end(), '\n');
}

TEST(DeepNet, HasAsManyStepsMoreAsItHasLayersMore) {
  EXPECT_EQ(steps_of(60) - steps_of(40), steps_of(40) - steps_of(20));
}

}  // namespace
}  // namespace lockstep::train
