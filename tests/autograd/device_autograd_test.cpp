// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/check_cases.h"
#include "tests/tensor/test_device.h"

namespace lockstep::testing {
namespace {

struct Weights {
  Tensors weights;
  Tensors momentum;
};

Weights fresh_weights(const Device& device) {
  const RandomScope draws(random_key(3));
  Weights all;
  for (const Shape& shape : {Shape{8, 2, 3, 3}, Shape{8}, Shape{5, 8 * 4 * 4}, Shape{5}}) {
    all.weights.push_back((normal(shape) * 0.3).to(device));
    all.momentum.push_back(Tensor::zeros(shape, DType::float32, device));
  }
  return all;
}

Tensor loss_of(const Tensors& w, const Tensor& x, const Tensor& labels) {
  const Tensor y = max_pool(relu(conv(x, w[0], w[1], {.padding = {1}})), {.kernel = {2}});
  return mean(softmax_cross_entropy(dense(dropout(y, 0.25), w[2], w[3]), labels));
}

// A loop by hand: tape, backward pass, update; nothing comes back to the host before its end.
Tensors train_by_hand(const Device& device) {
  Weights all = fresh_weights(device);
  const Tensor rate = Tensor::scalar(0.05, DType::float32, device);
  Tensors results;
  for (std::uint32_t step = 0; step < 4; ++step) {
    const RandomScope data(random_key(5, step));
    const Tensor x = normal({3, 2, 8, 8}).to(device), labels = randint(0, 5, {3}).to(device);
    const RandomScope draws(random_key(7, step).to(device));
    for (const Tensor& w : all.weights) autograd::attach_grad(w);
    Tensor loss;
    {
      const autograd::RecordScope record;
      loss = loss_of(all.weights, x, labels);
    }
    autograd::backward(loss);
    for (std::size_t i = 0; i < all.weights.size(); ++i)
      std::tie(all.weights[i], all.momentum[i]) = sgd_momentum_update(
          all.weights[i], autograd::gradient(all.weights[i]), all.momentum[i], rate);
    results.push_back(loss);
  }
  results.insert(results.end(), all.weights.begin(), all.weights.end());
  return results;
}

TEST(AutogradOnADevice, ALoopByHandGivesTheHostsBits) {
  const auto device = TestDevice::make();
  expect_the_hosts_bits(train_by_hand(device->device()), train_by_hand({}));
}

Tensors second_gradients(const Device& device) {
  const Tensor x = Tensor::from(std::vector<float>{0.5F, -1.5F, 2.0F}, {3}, device);
  autograd::attach_grad(x);
  const autograd::RecordScope record;
  const Tensor y = sum(tanh(x) * square(x));
  const Tensor first = autograd::grad({y}, {x}, {}, true)[0];
  return {first, autograd::grad({sum(first)}, {x})[0]};
}

TEST(AutogradOnADevice, GradientsOfGradientsAreTheHosts) {
  const auto device = TestDevice::make();
  expect_the_hosts_bits(second_gradients(device->device()), second_gradients({}));
}

Tensor added_gradients(const Device& device) {
  const Tensor x = Tensor::full({2}, 3.0, DType::float32, device);
  autograd::attach_grad(x, autograd::GradMode::add);
  for (int time = 0; time < 2; ++time) {
    Tensor y;
    {
      const autograd::RecordScope record;
      y = sum(square(x));
    }
    autograd::backward(y);
  }
  return autograd::gradient(x);
}

TEST(AutogradOnADevice, GradientsAddUpThere) {
  const auto device = TestDevice::make();
  const Tensor gradient = added_gradients(device->device());
  EXPECT_EQ(gradient.device(), device->device());
  expect_the_hosts_bits({gradient}, {added_gradients({})});
}

}  // namespace
}  // namespace lockstep::testing
