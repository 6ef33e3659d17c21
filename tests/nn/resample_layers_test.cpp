// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/layers/resample.h"
#include "lockstep/ops/conv.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/resample.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::testing {
namespace {

using namespace nn;
using Floats = std::vector<float>;

TEST(Upsample, IsTheOp) {
  const Tensor x = drawn({2, 3, 4, 5}, 1);
  expect_close(run_both_ways(*upsample({.scale = 2.0}), x), interpolate(x, {8, 10}), 0.0);
  expect_close(run_both_ways(*upsample({.size = {7}, .mode = "linear"}), x),
               interpolate(x, {7, 7}, {"linear", false}), 0.0);
  expect_close(run_both_ways(*upsample({.scale = 1.5, .mode = "linear", .align_corners = true}), x),
               interpolate(x, {6, 7}, {"linear", true}), 0.0);
  EXPECT_EQ(upsample({.scale = 2.0})->description(), "Upsample(by 2, nearest)");
  EXPECT_EQ(upsample({.size = {3, 4}, .mode = "linear", .align_corners = true})->description(),
            "Upsample(3x4, linear, corners aligned)");
}

TEST(Upsample, NamesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { upsample({}); }), "upsample: expected a size or a scale, got none");
  EXPECT_EQ(message_of([] { upsample({.size = {2}, .scale = 2.0}); }),
            "upsample: expected a size or a scale, got both");
  EXPECT_EQ(message_of([] {
              interpolate_by(drawn({1, 1, 2}, 1), 0.25);
            }),
            "interpolate: 2 elements times 0.25 are 0, expected 1 to 2147483647");
  EXPECT_EQ(message_of([] {
              interpolate(drawn({1, 1, 2}, 1), {4}, {"nearest", true});
            }),
            "interpolate: align_corners with mode 'nearest', expected linear");
  EXPECT_EQ(message_of([] {
              interpolate(drawn({1, 1, 2}, 1), {4}, {"cubic", false});
            }),
            "interpolate: mode is 'cubic', expected nearest, nearest_exact or linear");
}

TEST(PixelShuffle, MovesChannelsToPlacesAndBack) {
  const Tensor x = Tensor::from(Floats{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33},
                                {1, 4, 2, 2});
  const Tensor y = run_both_ways(*pixel_shuffle(2), x);
  EXPECT_EQ(y.shape(), (Shape{1, 1, 4, 4}));
  EXPECT_EQ(y.to_vector<float>(),
            (Floats{0, 10, 1, 11, 20, 30, 21, 31, 2, 12, 3, 13, 22, 32, 23, 33}));
  expect_close(run_both_ways(*pixel_unshuffle(2), y), x, 0.0);
  EXPECT_EQ(pixel_shuffle(3)->description(), "PixelShuffle(3)");
  EXPECT_EQ(message_of([&] { lockstep::pixel_shuffle(x, 3); }),
            "pixel_shuffle: 4 channels do not divide into blocks of 3 x 3");
  EXPECT_EQ(message_of([&] { lockstep::pixel_unshuffle(x, 3); }),
            "pixel_unshuffle: an image of 2 x 2 does not divide into blocks of 3 x 3");
}

TEST(GridSample, OfEveryPlaceIsTheImageItself) {
  const Tensor x = drawn({1, 2, 3, 3}, 1);
  Floats places;
  for (const float y : {-1.0F, 0.0F, 1.0F})
    for (const float x : {-1.0F, 0.0F, 1.0F}) places.insert(places.end(), {x, y});
  const Tensor grid = Tensor::from(places, {1, 3, 3, 2});
  expect_close(grid_sample(x, grid, {.align_corners = true}), x, 1e-6);
  EXPECT_EQ(message_of([&] { grid_sample(x, x); }),
            "grid_sample: grid has shape [1, 2, 3, 3], expected [1, H', W', 2]");
  EXPECT_EQ(message_of([&] { grid_sample(x, grid, {.padding = "wrap"}); }),
            "grid_sample: padding is 'wrap', expected zeros, border or reflection");
}

TEST(Pad, IsTheOpOnSpatialAxes) {
  const Tensor x = drawn({1, 2, 3, 4}, 1);
  expect_close(run_both_ways(*pad2d({1, 2}, {.mode = "circular"}), x),
               lockstep::pad(x, {0, 0, 0, 0, 1, 1, 2, 2}, 0.0, "circular"), 0.0);
  EXPECT_EQ(pad2d({1, 2}, {.mode = "circular"})->description(), "Pad2D(1x2, circular)");
  EXPECT_EQ(message_of([] { pad1d(1, {.mode = "wrap"}); }),
            "pad1d: mode is 'wrap', expected constant, edge, reflect or circular");
}

TEST(Conv, PaddingMayHoldTheOtherEnd) {
  const auto layer = conv2d(2, 3, {.padding = 1, .padding_mode = "circular"});
  const Tensor x = drawn({1, 2, 4, 4}, 1), y = run_both_ways(*layer, x);
  const Tensor wide = lockstep::pad(x, {0, 0, 0, 0, 1, 1, 1, 1}, 0.0, "circular");
  expect_close(
      y, conv(wide, layer->parameter("weight").data(), layer->parameter("bias").data(), {}), 1e-5);
  EXPECT_EQ(layer->description(), "Conv2D(2, 3x3, padding 1x1, circular)");
  EXPECT_EQ(message_of([] { conv2d(2, 3, {.padding_mode = "wrap"}); }),
            "conv2d: padding_mode is 'wrap', expected zeros, reflect, edge or circular");
}

TEST(AdaptivePool, TakesTheLargestToo) {
  const Tensor x = drawn({1, 2, 5, 7}, 1);
  expect_close(run_both_ways(*adaptive_max_pool2d({2, 3}), x),
               lockstep::adaptive_max_pool(x, {2, 3}), 0.0);
  EXPECT_EQ(adaptive_max_pool2d({2, 3})->description(), "AdaptiveMaxPool2D(2x3)");
}

TEST(Pool, WindowsMayBeDilated) {
  const auto layer = max_pool2d(2, {.stride = 1, .dilation = 2});
  const Tensor x = drawn({1, 2, 5, 6}, 1);
  EXPECT_EQ(run_both_ways(*layer, x).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(layer->description(), "MaxPool2D(2x2, stride 1x1, dilation 2x2)");
  EXPECT_EQ(message_of([] { avg_pool2d(2, {.dilation = 2}); }),
            "avg_pool2d: dilation is 2, an average has none");
}

}  // namespace
}  // namespace lockstep::testing
