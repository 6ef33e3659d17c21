// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers.h"

#include <gtest/gtest.h>

#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::expect_close;
using testing::message_of;
using testing::run_both_ways;
using Floats = std::vector<float>;

Tensor value(const Block& block, const std::string& name) { return block.parameter(name).data(); }

TEST(Dense, IsTheOpWithItsParameters) {
  const Tensor x = drawn({2, 3, 4}, 1);
  const auto flat = dense(5, {.activation = "tanh", .bias_init = init::constant(0.5)});
  const Tensor y_flat = run_both_ways(*flat, x);
  expect_close(y_flat,
               lockstep::tanh(lockstep::dense(x, value(*flat, "weight"), value(*flat, "bias"))),
               1e-6);
  EXPECT_EQ(flat->parameter("weight").shape(), (Shape{5, 12}));
  const auto last = dense(5, {.bias = false, .flatten = false});
  const Tensor y_last = run_both_ways(*last, x);
  expect_close(y_last, lockstep::dense(x, value(*last, "weight"), {}, false), 1e-6);
  EXPECT_EQ(last->parameters().size(), 1u);
}

TEST(Dense, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { dense(0); }), "dense: units is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { dense(2, {.activation = "rleu"}); }),
            "dense: activation is 'rleu', expected one of: relu, sigmoid, hard_sigmoid, tanh, "
            "softrelu, softsign, gelu, gelu_tanh, silu, swish, leaky_relu, elu, selu");
  const auto layer = dense(2, {.inputs = 3});
  layer->initialize();
  EXPECT_EQ(message_of([&] { (*layer)(ones({1, 4})); }), "weight: has shape [2, 3], got [2, 4]");
  EXPECT_EQ(message_of([&] { (*layer)(ones({})); }),
            "dense: x has shape [], expected 1 or more axes");
}

TEST(Conv, IsTheOpInEveryDimension) {
  const Tensor x1 = drawn({2, 4, 9}, 1), x2 = drawn({2, 4, 9, 8}, 2),
               x3 = drawn({1, 2, 5, 5, 5}, 3);
  const auto c1 = conv1d(6, 3, {.dilation = 2});
  const Tensor y_c1 = run_both_ways(*c1, x1);
  expect_close(
      y_c1, lockstep::conv(x1, value(*c1, "weight"), value(*c1, "bias"), {.dilation = {2}}), 1e-5);
  const auto c2 = conv2d(6, {3, 2}, {.stride = {2, 1}, .padding = 1, .groups = 2, .bias = false});
  const Tensor y_c2 = run_both_ways(*c2, x2);
  expect_close(y_c2,
               lockstep::conv(x2, value(*c2, "weight"), {},
                              {.stride = {2, 1}, .padding = {1, 1}, .groups = 2}),
               1e-5);
  EXPECT_EQ(c2->parameter("weight").shape(), (Shape{6, 2, 3, 2}));
  const auto c3 = conv3d(3, 2, {.activation = "relu"});
  const Tensor y_c3 = run_both_ways(*c3, x3);
  expect_close(y_c3, lockstep::relu(lockstep::conv(x3, value(*c3, "weight"), value(*c3, "bias"))),
               1e-5);
}

TEST(Conv, TransposedIsTheOp) {
  const Tensor x = drawn({2, 4, 5, 5}, 1);
  const auto layer =
      conv2d_transpose(6, 3, {.stride = 2, .padding = 1, .groups = 2, .output_padding = 1});
  const Tensor y = run_both_ways(*layer, x);
  expect_close(y,
               lockstep::conv_transpose(x, value(*layer, "weight"), value(*layer, "bias"),
                                        {.stride = {2}, .padding = {1}, .groups = 2}, {1}),
               1e-5);
  EXPECT_EQ(layer->parameter("weight").shape(), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 6, 10, 10}));
  EXPECT_EQ(run_both_ways(*conv1d_transpose(3, 2), drawn({1, 2, 4}, 2)).shape(), (Shape{1, 3, 5}));
  EXPECT_EQ(run_both_ways(*conv3d_transpose(3, 2), drawn({1, 2, 3, 3, 3}, 2)).shape(),
            (Shape{1, 3, 4, 4, 4}));
}

TEST(Conv, DescribesWhatIsUnusual) {
  EXPECT_EQ(conv2d(8, 3)->description(), "Conv2D(8, 3x3)");
  EXPECT_EQ(conv1d(8, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 4})->description(),
            "Conv1D(8, 3, stride 2, padding 1, dilation 2, groups 4)");
  EXPECT_EQ(conv2d_transpose(8, {3, 5}, {.activation = "relu"})->description(),
            "Conv2DTranspose(8, 3x5, relu)");
}

TEST(Conv, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              conv2d(8, {3, 3, 3});
            }),
            "conv2d: kernel has 3 sizes, expected 1 or 2");
  EXPECT_EQ(message_of([] { conv2d(8, 0); }), "conv2d: kernel is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { conv2d(8, 3, {.padding = -1}); }),
            "conv2d: padding is -1, expected 0 or more");
  EXPECT_EQ(message_of([] { conv2d(0, 3); }), "conv2d: channels is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { conv2d(8, 3, {.groups = 3}); }),
            "conv2d: 8 channels do not divide into 3 groups");
  const auto layer = conv2d_transpose(8, 3, {.groups = 2});
  layer->initialize();
  EXPECT_EQ(message_of([&] {
              (*layer)(ones({1, 3, 5, 5}));
            }),
            "conv2d_transpose: 3 input channels do not divide into 2 groups");
  EXPECT_EQ(message_of([&] {
              (*layer)(ones({1, 2, 5}));
            }),
            "conv2d_transpose: x has shape [1, 2, 5], expected 4 axes");
}

TEST(Pool, IsTheOp) {
  const Tensor x = drawn({2, 3, 7, 7}, 1);
  expect_close(run_both_ways(*max_pool2d(3, {.stride = 2, .padding = 1}), x),
               max_pool(x, {.kernel = {3}, .stride = {2}, .padding = {1}}), 0.0);
  expect_close(run_both_ways(*avg_pool2d({2, 3}, {.ceil_mode = true}), x),
               avg_pool(x, {.kernel = {2, 3}, .ceil_mode = true}), 1e-6);
  expect_close(run_both_ways(*avg_pool2d(3, {.padding = 1, .count_include_pad = false}), x),
               avg_pool(x, {.kernel = {3}, .padding = {1}, .count_include_pad = false}), 1e-6);
  expect_close(run_both_ways(*global_avg_pool2d(), x), global_avg_pool(x), 1e-6);
  expect_close(run_both_ways(*global_max_pool2d(), x), global_max_pool(x), 0.0);
  expect_close(run_both_ways(*adaptive_avg_pool2d({3, 2}), x), adaptive_avg_pool(x, {3, 2}), 1e-6);
}

TEST(Pool, HasOneToThreeDimensions) {
  const Tensor line = drawn({1, 2, 6}, 1), cube = drawn({1, 2, 4, 4, 4}, 2);
  EXPECT_EQ((*max_pool1d(2))(line).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ((*avg_pool1d(3))(line).shape(), (Shape{1, 2, 2}));
  EXPECT_EQ((*max_pool3d(2))(cube).shape(), (Shape{1, 2, 2, 2, 2}));
  EXPECT_EQ((*avg_pool3d(2))(cube).shape(), (Shape{1, 2, 2, 2, 2}));
  EXPECT_EQ((*global_max_pool1d())(line).shape(), (Shape{1, 2, 1}));
  EXPECT_EQ((*global_avg_pool1d())(line).shape(), (Shape{1, 2, 1}));
  EXPECT_EQ((*global_max_pool3d())(cube).shape(), (Shape{1, 2, 1, 1, 1}));
  EXPECT_EQ((*global_avg_pool3d())(cube).shape(), (Shape{1, 2, 1, 1, 1}));
  EXPECT_EQ((*adaptive_avg_pool1d(3))(line).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ((*adaptive_avg_pool3d(2))(cube).shape(), (Shape{1, 2, 2, 2, 2}));
}

TEST(Pool, DescribesItselfAndRefusesOtherRanks) {
  EXPECT_EQ(max_pool2d(3, {.stride = 2, .padding = 1})->description(),
            "MaxPool2D(3x3, stride 2x2, padding 1x1)");
  EXPECT_EQ(global_avg_pool2d()->description(), "GlobalAvgPool2D");
  EXPECT_EQ(adaptive_avg_pool2d(2)->description(), "AdaptiveAvgPool2D(2x2)");
  EXPECT_EQ(message_of([] {
              (*max_pool2d(2))(ones({1, 2, 4}));
            }),
            "max_pool2d: x has shape [1, 2, 4], expected 4 axes");
  EXPECT_EQ(message_of([] {
              (*global_avg_pool1d())(ones({1, 2}));
            }),
            "global_avg_pool1d: x has shape [1, 2], expected 3 axes");
  EXPECT_EQ(message_of([] { avg_pool2d(0); }), "avg_pool2d: kernel is 0, expected 1 or more");
}

TEST(Activation, GoesByName) {
  const Tensor x = drawn({3, 4}, 1);
  const auto check = [&](const char* name, const Tensor& expected) {
    SCOPED_TRACE(name);
    expect_close(run_both_ways(*activation(name), x), expected, 1e-6);
  };
  check("relu", lockstep::relu(x));
  check("sigmoid", sigmoid(x));
  check("hard_sigmoid", hard_sigmoid(x));
  check("tanh", lockstep::tanh(x));
  check("softrelu", softplus(x));
  check("softsign", x / (lockstep::abs(x) + 1.0));
  check("gelu", lockstep::gelu(x));
  check("gelu_tanh", lockstep::gelu(x, true));
  check("silu", lockstep::silu(x));
  check("swish", lockstep::silu(x));
  check("leaky_relu", lockstep::leaky_relu(x));
  check("elu", lockstep::elu(x));
  check("selu", lockstep::selu(x));
  check("", x);
  EXPECT_EQ(message_of([] { activation("none"); }).rfind("activation: activation is 'none'", 0),
            0u);
}

TEST(Activation, NamedOnesHaveTheirSettings) {
  const Tensor x = drawn({2, 3, 4}, 1);
  expect_close(run_both_ways(*leaky_relu(0.2), x), lockstep::leaky_relu(x, 0.2), 1e-6);
  expect_close(run_both_ways(*elu(0.5), x), lockstep::elu(x, 0.5), 1e-6);
  expect_close((*relu())(x), lockstep::relu(x), 0.0);
  expect_close((*selu())(x), lockstep::selu(x), 0.0);
  expect_close((*gelu())(x), lockstep::gelu(x), 0.0);
  expect_close((*silu())(x), lockstep::silu(x), 0.0);
  expect_close(run_both_ways(*prelu(), x), lockstep::leaky_relu(x, 0.25), 1e-6);
  expect_close(run_both_ways(*prelu(3, init::constant(0.1)), x), lockstep::leaky_relu(x, 0.1),
               1e-6);
  EXPECT_EQ(message_of([&] { (*prelu(4))(x); }),
            "prelu: x has shape [2, 3, 4], expected 4 channels on axis 1");
}

TEST(Activation, PReLULearnsASlopeForEachChannel) {
  const auto layer = prelu(2);
  layer->initialize();
  const autograd::RecordScope record;
  autograd::backward(sum((*layer)(Tensor::from(Floats{-1, -2, 3, -4}, {2, 2}))));
  EXPECT_EQ(layer->parameter("alpha").grad().to_vector<float>(), (Floats{-1, -6}));
}

TEST(Embedding, TakesRows) {
  const auto layer = embedding(5, 3, {.weight_init = init::normal(1.0)});
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{4, 0, 4, 2}, {2, 2});
  const Tensor y = run_both_ways(*layer, indices);
  expect_close(y, take(value(*layer, "weight"), indices), 0.0);
  EXPECT_EQ(layer->description(), "Embedding(5, 3)");
  EXPECT_EQ(message_of([] { embedding(0, 3); }), "embedding: rows is 0, expected 1 or more");
}

TEST(Embedding, PaddingsRowIsZeroAndGetsNoGradient) {
  const auto layer = embedding(4, 2, {.padding_index = -2});
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{2, 0, 2, 3}, {4});
  const Tensor y = run_both_ways(*layer, indices);
  EXPECT_EQ(y.to_vector<float>()[0], 0.0F);
  EXPECT_NE(y.to_vector<float>()[2], 0.0F);
  layer->parameter("weight").set_data(ones({4, 2}));
  const autograd::RecordScope record;
  autograd::backward(sum((*layer)(indices)));
  EXPECT_EQ(layer->parameter("weight").grad().to_vector<float>(), (Floats{1, 1, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(layer->description(), "Embedding(4, 2, padding 2)");
  EXPECT_EQ(message_of([] { embedding(4, 2, {.padding_index = 4}); }),
            "embedding: padding_index is 4, the table has 4 rows");
}

TEST(Flatten, KeepsTheFirstAxis) {
  EXPECT_EQ(run_both_ways(*flatten(), drawn({2, 3, 4}, 1)).shape(), (Shape{2, 12}));
}

TEST(Lambda, IsAFunction) {
  const auto twice = lambda([](const Tensor& x) { return x * 2.0; }, "Twice");
  EXPECT_EQ(run_both_ways(*twice, ones({2})).to_vector<float>(), (Floats{2, 2}));
  EXPECT_EQ(twice->description(), "Twice");
  EXPECT_EQ(message_of([] { lambda(nullptr); }), "lambda: there is no function");
}

TEST(Dropout, DropsInTrainModeOnly) {
  const RandomScope draws(random_key(2));
  const auto layer = dropout(0.5);
  const Tensor x = ones({1000});
  EXPECT_TRUE((*layer)(x).same_as(x));
  const autograd::ModeScope train(true);
  const double kept = mean((*layer)(x)).item();
  EXPECT_NEAR(kept, 1.0, 0.1);
  EXPECT_EQ(min((*layer)(x)).item(), 0.0);
  EXPECT_TRUE((*dropout(0.0))(x).same_as(x));
  EXPECT_EQ(message_of([] { dropout(1.0); }), "dropout: p is 1, expected 0 <= p < 1");
}

TEST(Dropout, CanDropWholeFeatureMaps) {
  const RandomScope draws(random_key(2));
  const autograd::ModeScope train(true);
  const Tensor y = (*dropout(0.5, {2, 3}))(ones({8, 8, 2, 2}));
  const Tensor maps = sum(y, {2, 3});
  for (const float map : maps.to_vector<float>()) EXPECT_TRUE(map == 0.0f || map == 8.0f) << map;
  EXPECT_EQ(min(maps).item(), 0.0);
  EXPECT_EQ(max(maps).item(), 8.0);
}

}  // namespace
}  // namespace lockstep::nn
