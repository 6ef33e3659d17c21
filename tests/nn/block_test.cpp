// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/block.h"

#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "tests/graph/graphs.h"
#include "tests/message.h"

namespace lockstep::nn {
namespace {

using testing::message_of;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;

Names names_of(const std::vector<NamedParameter>& parameters) {
  Names names;
  for (const NamedParameter& named : parameters) names.push_back(named.name);
  return names;
}

std::shared_ptr<Sequential> small_net() {
  return sequential(dense(4, {.activation = "relu"}), sequential(dense(3, {.bias = false})));
}

// Two uses of one layer, and a parameter of its own.
class Tied : public Block {
 public:
  explicit Tied(std::shared_ptr<Dense> layer)
      : first_(add_child("first", layer)),
        second_(add_child("second", layer)),
        scale_(add_parameter("scale", {1}, {.init = init::constant(2)})) {}
  Tensor forward(const Tensor& x) override { return (*second_)((*first_)(x)) * scale_.data(); }
  std::string description() const override { return "Tied"; }
  using Block::add_child;
  using Block::add_parameter;

 private:
  std::shared_ptr<Dense> first_, second_;
  Parameter scale_;
};

TEST(Block, NamesParametersByTheirPath) {
  EXPECT_EQ(names_of(small_net()->parameters()), (Names{"0.weight", "0.bias", "1.0.weight"}));
}

TEST(Block, ASharedParameterAppearsOnceUnderItsFirstNameAfterOwnOnes) {
  const Tied net(dense(2, {.inputs = 2}));
  EXPECT_EQ(names_of(net.parameters()), (Names{"scale", "first.weight", "first.bias"}));
}

TEST(Block, ChoosesParametersByARegularExpression) {
  const auto net = small_net();
  EXPECT_EQ(names_of(net->parameters("weight$")), (Names{"0.weight", "1.0.weight"}));
  EXPECT_EQ(names_of(net->parameters("^1")), (Names{"1.0.weight"}));
  EXPECT_TRUE(net->parameters("gamma").empty());
  EXPECT_EQ(message_of([&] {
              net->parameters("(");
            }).rfind("parameters: '(' is no regular expression: ", 0),
            0u);
}

TEST(Block, AMissingParameterIsAnErrorThatListsThoseThereAre) {
  EXPECT_EQ(message_of<NotFound>([] { small_net()->parameter("fc"); }),
            "parameter: there is no 'fc' (there are: 0.weight, 0.bias, 1.0.weight)");
}

TEST(Block, CallingAnUninitialisedNetNamesTheParameter) {
  const auto net = small_net();
  EXPECT_EQ(
      message_of([&] {
        (*net)(ones({1, 2}));
      }),
      "0 (Dense(4, relu)): 0.weight: has no contents yet; call initialize() on the block first");
}

TEST(Block, RefusesBadNamesAndChildren) {
  Tied net(dense(2, {.inputs = 2}));
  EXPECT_EQ(message_of([&] { net.add_child("a.b", flatten()); }),
            "block: child is named 'a.b', expected a name without dots");
  EXPECT_EQ(message_of([&] { net.add_child("first", flatten()); }),
            "block: there is a child named 'first' already");
  EXPECT_EQ(message_of([&] { net.add_child("null", BlockPtr()); }), "block: child 'null' is null");
  EXPECT_EQ(message_of([&] { net.add_parameter("", {1}); }),
            "block: parameter is named '', expected a name without dots");
  EXPECT_EQ(message_of([&] { net.add_parameter("scale", {1}); }),
            "block: there is a parameter named 'scale' already");
  EXPECT_EQ(message_of([] { small_net()->operator[](2); }),
            "sequential: index 2 is out of range for 2 blocks");
}

class Nothing : public Block {};

TEST(Block, WithoutAForwardFunctionSaysSo) {
  Nothing block;
  EXPECT_EQ(message_of([&] { block(ones({1})); }), "Block: has neither forward nor forward_all");
  EXPECT_EQ(message_of([&] { block(std::vector<Tensor>{ones({1})}); }),
            "Block: has neither forward nor forward_all");
  EXPECT_EQ(message_of([&] {
              (*flatten())(std::vector<Tensor>{ones({1}), ones({1})});
            }),
            "Flatten: takes 1 input, got 2");
}

TEST(Block, InitialValuesDependOnSeedAndNameNotOnOtherLayers) {
  const auto one = sequential(dense(4, {.inputs = 3}));
  const auto two = sequential(dense(4, {.inputs = 3}), dense(9, {.inputs = 4}));
  one->initialize(init::xavier(), 5);
  two->initialize(init::xavier(), 5);
  EXPECT_EQ(one->parameter("0.weight").data().to_vector<float>(),
            two->parameter("0.weight").data().to_vector<float>());
  two->initialize(init::xavier(), 6, /*force=*/true);
  EXPECT_NE(one->parameter("0.weight").data().to_vector<float>(),
            two->parameter("0.weight").data().to_vector<float>());
}

TEST(Block, DeferredShapesGiveTheSameInitialValues) {
  const auto deferred = sequential(dense(4)), known = sequential(dense(4, {.inputs = 3}));
  deferred->initialize();
  known->initialize();
  (*deferred)(ones({2, 3}));
  EXPECT_EQ(deferred->parameter("0.weight").data().to_vector<float>(),
            known->parameter("0.weight").data().to_vector<float>());
}

TEST(Block, CompletesShapesWithoutRunning) {
  const auto net = sequential(conv2d(2, 3), dense(5));
  net->complete_shapes({testing::floats({1, 3, 6, 6})});
  EXPECT_EQ(net->parameter("0.weight").shape(), (Shape{2, 3, 3, 3}));
  EXPECT_EQ(net->parameter("1.weight").shape(), (Shape{5, 32}));
  EXPECT_FALSE(net->parameter("1.weight").is_initialized());
  net->initialize();
  EXPECT_TRUE(net->parameter("1.weight").is_initialized());
}

TEST(Block, FrozenPartsGetNoGradient) {
  const auto net = small_net();
  net->initialize();
  (*net)[0].freeze();
  {
    const autograd::RecordScope record;
    autograd::backward(sum((*net)(ones({2, 2}))));
  }
  EXPECT_FALSE(net->parameter("0.weight").grad().defined());
  EXPECT_TRUE(net->parameter("1.0.weight").grad().defined());
  net->unfreeze();
  EXPECT_TRUE(net->parameter("0.weight").options().trainable);
}

TEST(Block, CastChangesAllParametersAndRuns) {
  const auto net = sequential(conv2d(2, 3), batch_norm(), dense(3));
  net->initialize();
  (*net)(ones({1, 2, 4, 4}));
  net->cast(DType::float64);
  const Tensor y = (*net)(ones({1, 2, 4, 4}, DType::float64));
  EXPECT_EQ(y.dtype(), DType::float64);
}

TEST(Block, SharedParametersAreOne) {
  const auto one = small_net(), two = small_net();
  one->initialize();
  two->share_parameters(*one);
  const Tensor x = ones({1, 2});
  EXPECT_EQ((*one)(x).to_vector<float>(), (*two)(x).to_vector<float>());
  one->parameter("1.0.weight").set_data(zeros({3, 4}));
  EXPECT_EQ((*two)(x).to_vector<float>(), (Floats{0, 0, 0}));
}

TEST(Block, SharingNeedsTheSameNamesAndShapes) {
  const auto net = sequential(dense(4, {.inputs = 2}));
  EXPECT_EQ(message_of([&] { net->share_parameters(*sequential(flatten())); }),
            "share_parameters: this block has 0.weight, 0.bias; the other has none");
  EXPECT_EQ(message_of([&] { net->share_parameters(*sequential(dense(3, {.inputs = 2}))); }),
            "0.weight: has shape [4, 2], cannot share 0.weight with shape [3, 2]");
}

TEST(Block, AppliesAFunctionToDescendantsFirst) {
  Names seen;
  small_net()->apply([&](Block& block) { seen.push_back(block.description()); });
  EXPECT_EQ(seen, (Names{"Dense(4, relu)", "Dense(3)", "Sequential", "Sequential"}));
}

TEST(Block, SummaryIsATable) {
  const auto net = sequential(conv2d(4, 3, {.padding = 1, .activation = "relu"}), batch_norm(),
                              max_pool2d(2), dense(10));
  EXPECT_EQ(net->summary({testing::floats({1, 3, 8, 8})}),
            "layer (type)                             output shape  parameters\n"
            "-----------------------------------------------------------------\n"
            "(Sequential)                             [1, 10]                0\n"
            "  0 (Conv2D(4, 3x3, padding 1x1, relu))  [1, 4, 8, 8]         112\n"
            "  1 (BatchNorm)                          [1, 4, 8, 8]          16\n"
            "  2 (MaxPool2D(2x2))                     [1, 4, 4, 4]           0\n"
            "  3 (Dense(10))                          [1, 10]              650\n"
            "-----------------------------------------------------------------\n"
            "parameters: 778 (770 trainable, 8 fixed), 3.0 KiB\n");
  EXPECT_EQ(net->parameter("3.weight").shape(), (Shape{10, 64}));
}

TEST(Block, SummaryCountsASharedLayerOnceAndNeedsNoContents) {
  Tied net(dense(1000, {.inputs = 1000}));
  EXPECT_EQ(net.summary({testing::floats({2, 1000})}),
            "layer (type)           output shape  parameters\n"
            "-----------------------------------------------\n"
            "(Tied)                 [2, 1000]              1\n"
            "  first (Dense(1000))  [2, 1000]      1,001,000\n"
            "  first (Dense(1000))  [2, 1000]              0\n"
            "-----------------------------------------------\n"
            "parameters: 1,001,001 (1,001,001 trainable, 0 fixed), 3.8 MiB\n");
}

}  // namespace
}  // namespace lockstep::nn
