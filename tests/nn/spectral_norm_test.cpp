// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/spectral_norm.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::testing {
namespace {

using namespace nn;

// The largest singular value, by many steps of the power method.
double largest(const Tensor& matrix) {
  Tensor v = drawn({matrix.shape(1)}, 9);
  double size = 0;
  for (int i = 0; i < 300; ++i) {
    v = matmul(matrix, matmul(matrix, v), true);
    size = lockstep::norm(v).item();
    v = v / size;
  }
  return std::sqrt(size);
}

TEST(SpectralNorm, DividesTheWeightByItsLargestSingularValue) {
  const auto layer = spectral_norm(dense(6, {.bias = false}));
  layer->initialize(init::normal(1.0), 3);
  const Tensor x = drawn({5, 4}, 1);
  {
    const autograd::ModeScope train(true);
    for (int i = 0; i < 60; ++i) (*layer)(x);
  }
  const Tensor weight = layer->parameter("layer.weight").data();
  EXPECT_NEAR(largest(layer->weight()), 1.0, 1e-4);
  expect_close((*layer)(x), lockstep::dense(x, weight / largest(weight)), 1e-4);
  EXPECT_EQ(layer->description(), "SpectralNorm");
}

TEST(SpectralNorm, FollowsInTrainModeAlone) {
  const auto layer = spectral_norm(conv2d(4, 3), {.iterations = 2});
  const Tensor x = drawn({2, 3, 5, 5}, 1);
  run_both_ways(*layer, x);
  const std::vector<float> before = layer->parameter("u").data().to_vector<float>();
  (*layer)(x);
  EXPECT_EQ(layer->parameter("u").data().to_vector<float>(), before);
  const autograd::ModeScope train(true);
  (*layer)(x);
  EXPECT_NE(layer->parameter("u").data().to_vector<float>(), before);
  layer->hybridize();
  const std::vector<float> once = layer->parameter("u").data().to_vector<float>();
  (*layer)(x);
  EXPECT_NE(layer->parameter("u").data().to_vector<float>(), once);
  EXPECT_EQ(layer->description(), "SpectralNorm(2 iterations)");
}

// w / (u^T w v) with u and v fixed: its gradient against differences.
TEST(SpectralNorm, GradientTakesTheDirectionsAsConstants) {
  const auto layer = spectral_norm(dense(3, {.bias = false}), {.iterations = 50});
  layer->initialize(init::normal(1.0), 3);
  const Tensor x = drawn({2, 4}, 1);
  (*layer)(x);
  {
    const autograd::RecordScope record;
    autograd::backward(sum(square((*layer)(x))));
  }
  const Parameter weight = layer->parameter("layer.weight");
  const std::vector<float> grad = weight.grad().to_vector<float>();
  const std::vector<float> start = weight.data().to_vector<float>();
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto value = [&](float change) {
      std::vector<float> moved = start;
      moved[i] += change;
      weight.set_data(Tensor::from(moved, weight.shape()));
      return sum(square((*layer)(x))).item();
    };
    EXPECT_NEAR(grad[i], (value(1e-2F) - value(-1e-2F)) / 2e-2, 2e-2) << i;
  }
}

TEST(SpectralNorm, FollowsAReplacedLayer) {
  const auto layer = spectral_norm(dense(6, {.bias = false}), {.iterations = 200});
  layer->initialize(init::normal(1.0), 3);
  const Tensor x = drawn({5, 4}, 1);
  (*layer)(x);
  layer->replace_child("layer", dense(6, {.bias = false}));
  layer->initialize(init::normal(1.0), 8);
  const Tensor y = (*layer)(x), weight = layer->parameter("layer.weight").data();
  expect_close(y, lockstep::dense(x, weight / largest(weight)), 1e-4);
  EXPECT_NEAR(largest(layer->weight()), 1.0, 1e-4);
  layer->replace_child("layer", dense(7, {.inputs = 4}));
  EXPECT_EQ(message_of([&] { layer->weight(); }),
            "spectral_norm: weight of the new layer has shape [7, 4], expected 6 on axis 0 as "
            "before");
}

TEST(SpectralNorm, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { spectral_norm(nullptr); }), "spectral_norm: there is no layer");
  EXPECT_EQ(message_of([] { spectral_norm(dense(3), {.parameter = "bias"}); }),
            "spectral_norm: bias has shape [3], expected two axes or more");
  EXPECT_EQ(message_of([] { spectral_norm(dense(3), {.axis = 2}); }),
            "spectral_norm: axis is 2, weight has 2 axes");
}

}  // namespace
}  // namespace lockstep::testing
