// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/instruction_set.h"
#include "tests/ops/calls.h"
#include "tests/ops/layout_run.h"

namespace lockstep {
namespace {

using testing::blocked_by_16;
using testing::call;
using testing::expect_near;
using testing::LayoutRun;
using testing::message_of;
using testing::random_floats;
using testing::run_in_layouts;

const Tensor kFour = Tensor::zeros({4});

TEST(BatchNorm, RefusesAVector) {
  EXPECT_EQ(message_of([] { batch_norm(kFour, kFour, kFour); }),
            "batch_norm: x has shape [4], expected [N, C, ...]");
}

TEST(BatchNorm, RefusesScalesOfAnotherSize) {
  const Tensor x = Tensor::zeros({2, 3, 5, 5});
  EXPECT_EQ(message_of([&] { batch_norm(x, kFour, kFour); }),
            "batch_norm: gamma has shape [4], expected [3]");
  EXPECT_EQ(message_of([&] { batch_norm(x, Tensor::zeros({3}), kFour); }),
            "batch_norm: beta has shape [4], expected [3]");
}

TEST(BatchNorm, RefusesMixedDtypes) {
  const Tensor x = Tensor::zeros({2, 4});
  EXPECT_EQ(message_of([&] { batch_norm(x, Tensor::zeros({4}, DType::float64), kFour); }),
            "batch_norm: gamma is float64, x is float32");
}

TEST(BatchNorm, RefusesIntegers) {
  const Tensor x = Tensor::zeros({2, 4}, DType::int64);
  EXPECT_EQ(message_of([&] { batch_norm(x, kFour, kFour); }),
            "batch_norm: takes floating tensors, got int64");
}

TEST(BatchNorm, RefusesANegativeEpsilon) {
  const Tensor x = Tensor::zeros({2, 4});
  EXPECT_EQ(message_of([&] { batch_norm(x, kFour, kFour, -1.0); }),
            "batch_norm: epsilon is -1, expected at least 0");
}

TEST(BatchNormBackward, RefusesAWorkspaceWithoutRelu) {
  const Tensor x = Tensor::zeros({2, 4});
  const Tensor workspace = Tensor::zeros({2, 4}, DType::uint8);
  EXPECT_EQ(message_of([&] {
              call("batch_norm_backward", {x, x, kFour, kFour, kFour, workspace});
            }),
            "batch_norm_backward: a workspace goes with relu and only with it");
  EXPECT_EQ(message_of([&] {
              call("batch_norm_backward", {x, x, kFour, kFour, kFour, x}, {{"relu", true}});
            }),
            "batch_norm_backward: workspace is float32[2, 4], expected uint8[2, 4]");
}

TEST(BatchNormBackward, RefusesAGradientOfAnotherShape) {
  const Tensor x = Tensor::zeros({2, 4});
  EXPECT_EQ(message_of([&] {
              call("batch_norm_backward", {kFour, x, kFour, kFour, kFour});
            }),
            "batch_norm_backward: dy has shape [4], expected [2, 4]");
}

TEST(BatchNormInference, NamesTheStatisticThatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 4});
  EXPECT_EQ(message_of([&] { batch_norm_inference(x, kFour, kFour, kFour, Tensor::zeros({5})); }),
            "batch_norm_inference: var has shape [5], expected [4]");
}

TEST(LayerNorm, RefusesScalesOfAnotherSize) {
  EXPECT_EQ(message_of([] {
              layer_norm(Tensor::zeros({2, 5}), kFour, kFour);
            }),
            "layer_norm: gamma has shape [4], expected [5]");
}

TEST(LayerNorm, RefusesAScalar) {
  EXPECT_EQ(message_of([] { layer_norm(Tensor::scalar(1), kFour, kFour); }),
            "layer_norm: x is a scalar, expected at least 1 axis");
}

TEST(LayerNormBackward, NamesTheStatisticThatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 4});
  EXPECT_EQ(message_of([&] {
              call("layer_norm_backward", {x, x, kFour, kFour, kFour});
            }),
            "layer_norm_backward: mean has shape [4], expected [2]");
}

TEST(GroupNorm, RefusesGroupsThatDoNotDivideTheChannels) {
  const Tensor x = Tensor::zeros({2, 4, 3});
  EXPECT_EQ(message_of([&] { group_norm(x, kFour, kFour, 3); }),
            "group_norm: 4 channels do not divide into 3 groups");
  EXPECT_EQ(message_of([&] { group_norm(x, kFour, kFour, 0); }),
            "group_norm: 4 channels do not divide into 0 groups");
}

TEST(GroupNorm, NormalisesEachGroupOfEachSample) {
  const Tensor x = random_floats({2, 4, 3}, 1, 2.0, 5.0);
  const Tensor y = group_norm(x, Tensor::full({4}, 1.0), kFour, 2);
  for (int group = 0; group < 4; ++group) {
    double sum = 0, squares = 0;
    for (int i = 0; i < 6; ++i) {
      const double value = y.data<float>()[group * 6 + i];
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / 6, 0.0, 1e-5);
    EXPECT_NEAR(squares / 6, 1.0, 1e-3);
  }
}

TEST(GroupNorm, ScalesEachChannelByItself) {
  const Tensor x = random_floats({2, 4, 3}, 1);
  const Tensor beta = Tensor::from<float>({1, 2, 3, 4}, {4});
  const Tensor y = group_norm(x, kFour, beta, 2);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(y.data<float>()[i], static_cast<float>(i / 3 % 4 + 1));
}

TEST(InstanceNorm, IsAGroupForEachChannel) {
  const Tensor x = random_floats({2, 4, 3}, 1);
  const Tensor gamma = random_floats({4}, 2);
  expect_near(instance_norm(x, gamma, kFour), group_norm(x, gamma, kFour, 4), 0);
}

TEST(InstanceNorm, RefusesAVector) {
  EXPECT_EQ(message_of([] { instance_norm(kFour, kFour, kFour); }),
            "instance_norm: x has shape [4], expected [N, C, ...]");
}

// Below AVX2 oneDNN has nothing but the reference for some of these, which gets plain values.
void expect_follows(const Layout& layout, const Layout& blocked) {
  const bool has_kernels = best_instruction_set() >= InstructionSet::avx2;
  if (has_kernels || !layout.is_plain()) {
    EXPECT_EQ(layout, blocked);
  }
}

// x in blocks: y, dx and the mask follow it, and the results are those of plain layouts.
void expect_blocked_equals_plain(const Shape& shape, bool relu) {
  const std::vector<AttrField> attrs{{"relu", relu}};
  const Shape channels{shape[1]};
  const Tensor x = random_floats(shape, 1);
  const Tensor gamma = random_floats(channels, 2, 0.5, 1.5);
  const Tensor beta = random_floats(channels, 3);
  const Tensor dy = random_floats(shape, 4);
  const Layout blocked = testing::blocked_by_vectors(shape);

  testing::LayoutOptions options{.offered = {blocked}, .mask_output = relu ? 3 : -1};
  const LayoutRun y = run_in_layouts("batch_norm", {x, gamma, beta}, attrs, options);
  expect_follows(y.output_layouts[0], blocked);
  const auto expected = call("batch_norm", {x, gamma, beta}, attrs);
  for (std::size_t i = 0; i < 3; ++i) expect_near(y.outputs[i], expected[i], 1e-5);

  std::vector<Tensor> inputs{dy, x, gamma, expected[1], expected[2]};
  std::vector<Tensor> plain = inputs;
  options = {.offered = {{}, blocked, {}, {}, {}}};
  if (relu) {
    inputs.push_back(y.outputs[3]);
    plain.push_back(expected[3]);
    options.offered.push_back(y.output_layouts[3]);
    options.mask_input = 5;
  }
  const LayoutRun dx = run_in_layouts("batch_norm_backward", inputs, attrs, options);
  expect_follows(dx.output_layouts[0], blocked);
  const auto wanted = call("batch_norm_backward", plain, attrs);
  for (std::size_t i = 0; i < 3; ++i) expect_near(dx.outputs[i], wanted[i], 1e-4);
}

TEST(BatchNormInLayouts, FollowsTheBlocksOfX) {
  expect_blocked_equals_plain({3, 32, 5, 4}, false);
  expect_blocked_equals_plain({3, 20, 5, 4}, false);
}

TEST(BatchNormInLayouts, FollowsTheBlocksOfXWithReluInside) {
  expect_blocked_equals_plain({3, 32, 5, 4}, true);
  expect_blocked_equals_plain({3, 20, 5, 4}, true);
}

TEST(BatchNormInLayouts, TakesAPlainMaskWithPlainBytes) {
  const Tensor x = random_floats({2, 16, 3, 3}, 1);
  const Tensor gamma = Tensor::full({16}, 1.0);
  const auto y = call("batch_norm", {x, gamma, Tensor::zeros({16})}, {{"relu", true}});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    ASSERT_EQ(y[3].data<std::uint8_t>()[i], y[0].data<float>()[i] > 0 ? 1 : 0);
  const std::vector<Tensor> inputs{x, x, gamma, y[1], y[2], y[3]};
  const LayoutRun dx = run_in_layouts("batch_norm_backward", inputs, {{"relu", true}},
                                      {.offered = {{}, blocked_by_16(x.shape())}});
  expect_near(dx.outputs[0], call("batch_norm_backward", inputs, {{"relu", true}})[0], 1e-5);
}

}  // namespace
}  // namespace lockstep
