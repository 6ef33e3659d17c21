// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/conv.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/conv_attrs.h"
#include "lockstep/ops/dispatch.h"
#include "tests/ops/calls.h"
#include "tests/ops/layout_run.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

Tensor zeros(const Shape& shape, DType dtype = DType::float32) {
  return Tensor::zeros(shape, dtype);
}

TEST(Conv, RefusesAnInputWithoutSpatialAxes) {
  EXPECT_EQ(message_of([] {
              conv(zeros({2, 3}), zeros({4, 3}));
            }),
            "conv: input has shape [2, 3], expected [N, C, spatial...] with 1 to 3 spatial axes");
}

TEST(Conv, RefusesIntegers) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 3, 4}, DType::int32), zeros({4, 3, 1}));
            }),
            "conv: input is int32, expected a floating dtype");
}

TEST(Conv, RefusesMixedDtypes) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 3, 4}), zeros({4, 3, 1}, DType::float64));
            }),
            "conv: weight is float64, input is float32");
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 3, 4}), zeros({4, 3, 1}), zeros({4}, DType::float64));
            }),
            "conv: bias is float64, input is float32");
}

TEST(Conv, RefusesASpatialSizeOfZero) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 3, 0}), zeros({4, 3, 1}));
            }),
            "conv: input has shape [1, 3, 0], expected spatial sizes of at least 1");
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 3, 2}), zeros({4, 3, 0}));
            }),
            "conv: weight has shape [4, 3, 0], expected kernel sizes of at least 1");
}

TEST(Conv, RefusesAWeightOfAnotherRank) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 3, 4, 4}), zeros({4, 3, 3}));
            }),
            "conv: weight has shape [4, 3, 3], expected 4 axes as the input has");
}

TEST(Conv, SaysHowManyChannelsTheWeightIsFor) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 4, 5, 5}), zeros({4, 3, 3, 3}));
            }),
            "conv: weight has 3 input channels for 1 group, input has 4 channels");
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 4, 5, 5}), zeros({4, 3, 3, 3}), {}, {.groups = 2});
            }),
            "conv: weight has 3 input channels for 2 groups, input has 4 channels");
}

TEST(Conv, RefusesGroupsThatDoNotDivide) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 4, 5}), zeros({3, 2, 3}), {}, {.groups = 2});
            }),
            "conv: weight has 3 output channels, which 2 groups do not divide");
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 4, 5}), zeros({3, 2, 3}), {}, {.groups = 0});
            }),
            "conv: groups is 0, expected 1 to 2147483647");
}

TEST(Conv, RefusesABiasOfAnotherSize) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 4, 5}), zeros({3, 4, 3}), zeros({4}));
            }),
            "conv: bias has shape [4], expected [3]");
}

TEST(Conv, RefusesListsThatDoNotFit) {
  const Tensor x = zeros({1, 1, 5, 5}), w = zeros({1, 1, 3, 3});
  EXPECT_EQ(message_of([&] {
              conv(x, w, {}, {.stride = {1, 1, 1}});
            }),
            "conv: stride has 3 entries, expected 1 or 2");
  EXPECT_EQ(message_of([&] {
              conv(x, w, {}, {.stride = {0, 1}});
            }),
            "conv: stride is [0, 1], expected at least 1");
  EXPECT_EQ(message_of([&] { conv(x, w, {}, {.padding = {-1}}); }),
            "conv: padding is [-1], expected at least 0");
  EXPECT_EQ(message_of([&] { conv(x, w, {}, {.dilation = {0}}); }),
            "conv: dilation is [0], expected at least 1");
  EXPECT_EQ(message_of([&] { conv(x, w, {}, {.padding = {1LL << 40}}); }),
            "conv: padding is [1099511627776], expected at least 0 and at most 2147483647");
}

TEST(Conv, RefusesAKernelLargerThanThePaddedInput) {
  EXPECT_EQ(message_of([] {
              conv(zeros({1, 1, 4, 9}), zeros({1, 1, 3, 3}), {}, {.dilation = {2}});
            }),
            "conv: kernel spans 5 along axis 2, padded input has 4");
}

TEST(Conv, RefusesAnUnknownActivation) {
  const std::vector<Tensor> inputs{zeros({1, 1, 4}), zeros({1, 1, 3})};
  ConvAttrs attrs;
  attrs.activation = "tanh";
  EXPECT_EQ(message_of([&] { apply(get_op("conv"), inputs, Attrs::of(attrs)); }),
            "conv: activation is 'tanh', expected '' or 'relu'");
}

TEST(ConvTranspose, RefusesOutputPaddingOfAStrideOrMore) {
  EXPECT_EQ(message_of([] {
              conv_transpose(zeros({1, 2, 4}), zeros({2, 3, 3}), {}, {.stride = {2}}, {2});
            }),
            "conv_transpose: output_padding is 2 along axis 2, expected less than stride 2");
}

TEST(ConvTranspose, RefusesPaddingThatLeavesNothing) {
  EXPECT_EQ(message_of([] {
              conv_transpose(zeros({1, 2, 1}), zeros({2, 3, 3}), {}, {.padding = {2}});
            }),
            "conv_transpose: the output would have size -1 along axis 2");
}

TEST(ConvTranspose, RefusesAWeightForOtherChannels) {
  EXPECT_EQ(message_of([] {
              conv_transpose(zeros({1, 2, 4}), zeros({3, 2, 3}));
            }),
            "conv_transpose: weight has shape [3, 2, 3], input has 2 channels, expected 3");
}

TEST(ConvBackwardData, RefusesAnInputSizeThatDoesNotGiveTheGradient) {
  const std::vector<Tensor> inputs{zeros({1, 1, 4}), zeros({1, 1, 3})};
  ConvDataAttrs attrs;
  attrs.input_size = {7};
  EXPECT_EQ(
      message_of([&] { apply(get_op("conv_backward_data"), inputs, Attrs::of(attrs)); }),
      "conv_backward_data: an input of size [7] gives an output of size [5], gradient has [4]");
}

TEST(ConvBackwardWeights, RefusesAGradientOfAnotherShape) {
  const std::vector<Tensor> inputs{zeros({1, 1, 6}), zeros({1, 2, 5})};
  ConvWeightsAttrs attrs;
  attrs.kernel = {3};
  EXPECT_EQ(message_of([&] { apply(get_op("conv_backward_weights"), inputs, Attrs::of(attrs)); }),
            "conv_backward_weights: gradient has shape [1, 2, 5], expected [1, 2, 4]");
}

TEST(Conv, WithAFusedActivationHasNoGradient) {
  const Tensor x = random_floats({1, 1, 4}, 1), w = random_floats({1, 1, 3}, 2);
  autograd::attach_grad(w);
  ConvAttrs attrs;
  attrs.activation = "relu";
  EXPECT_EQ(message_of<Unsupported>([&] {
              const autograd::RecordScope scope;
              autograd::backward(apply_one(get_op("conv"), {x, w}, Attrs::of(attrs)));
            }),
            "conv: with activation 'relu' fused there is no gradient");
}

TEST(Conv, OfAnEmptyBatchHasZeroWeightGradients) {
  const std::vector<Tensor> inputs{zeros({0, 2, 5}), zeros({0, 3, 3})};
  ConvWeightsAttrs attrs;
  attrs.kernel = {3};
  attrs.with_bias = true;
  const auto out = apply(get_op("conv_backward_weights"), inputs, Attrs::of(attrs));
  EXPECT_EQ(out[0].to_vector<double>(), std::vector<double>(18, 0.0));
  EXPECT_EQ(out[1].to_vector<double>(), std::vector<double>(3, 0.0));
}

// Terms that are all alike round in one direction: added one after another they lose digits.
TEST(ConvBackwardWeights, SumsManyEqualTermsOfABias) {
  const Shape shape{8, 19, 64, 64};
  const float each = 1.0F / 3;
  const std::vector<Tensor> inputs{zeros({8, 3, 64, 64}), Tensor::full(shape, each)};
  ConvWeightsAttrs attrs;
  attrs.stride = attrs.dilation = {1, 1};
  attrs.padding = {1, 1};
  attrs.kernel = {3, 3};
  attrs.with_bias = true;
  const Tensor sums = apply(get_op("conv_backward_weights"), inputs, Attrs::of(attrs)).at(1);
  for (int c = 0; c < 19; ++c)
    EXPECT_NEAR(sums.to_vector<float>()[static_cast<std::size_t>(c)] / (8 * 64 * 64 * each), 1.0F,
                1e-6F)
        << "channel " << c;
}

TEST(ConvInLayouts, EqualsTheEagerResultInBits) {
  const std::vector<Tensor> inputs{random_floats({2, 32, 9, 9}, 1),
                                   random_floats({48, 16, 3, 3}, 2), random_floats({48}, 3)};
  ConvAttrs attrs;
  attrs.padding = {1};
  attrs.groups = 2;
  const LayoutRun run = run_in_layouts(get_op("conv"), inputs, Attrs::of(attrs));
  EXPECT_FALSE(run.output_layouts[0].is_plain());
  EXPECT_EQ(run.outputs[0].to_vector<float>(),
            apply(get_op("conv"), inputs, Attrs::of(attrs))[0].to_vector<float>());
}

TEST(ConvInLayouts, GivesManyThreadsTheSameBitsFromOneKernel) {
  const std::vector<Tensor> inputs{random_floats({2, 16, 12, 12}, 1),
                                   random_floats({16, 16, 3, 3}, 2)};
  const Infos infos{inputs[0].info(), inputs[1].info()};
  const Attrs attrs = Attrs::of(ConvAttrs{});
  const Infos outs = infer(get_op("conv"), infos, attrs);
  const std::vector<Layout> plain(2);
  const auto kernel = choose_kernel({get_op("conv"), attrs, infos, outs, plain}).prepared;
  ASSERT_NE(kernel, nullptr);
  std::vector<Tensor> results(8);
  {
    std::vector<std::jthread> threads;
    for (Tensor& result : results)
      threads.emplace_back([&] {
        result = zeros(outs[0].shape);
        const auto scratch = Storage::allocate(kernel->scratch_bytes, {});
        std::byte* in[] = {inputs[0].raw(), inputs[1].raw()};
        std::byte* out[] = {result.raw()};
        for (int i = 0; i < 20; ++i) kernel->run({in, out, scratch->data()});
      });
  }
  for (const Tensor& result : results)
    EXPECT_EQ(result.to_vector<float>(), conv(inputs[0], inputs[1]).to_vector<float>());
}

}  // namespace
}  // namespace lockstep::testing
