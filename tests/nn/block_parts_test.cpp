// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/feature_extractor.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::message_of;
using Floats = std::vector<float>;

// Holds its children as blocks of one's own do, and calls them.
class Pair : public Block {
 public:
  Pair() : first_(add_child("first", dense(3))), head_(add_child("head", dense(2))) {}
  Tensor forward(const Tensor& x) override { return (*head_)((*first_)(x)); }
  std::string description() const override { return "Pair"; }

 private:
  std::shared_ptr<Dense> first_, head_;
};

BlockPtr times(double factor) {
  return lambda([factor](const Tensor& x) { return x * factor; });
}

TEST(BlockParts, AChildIsFoundByItsPath) {
  const auto inner = dense(3);
  const auto net = sequential(sequential(dense(2), inner), dense(4));
  EXPECT_EQ(net->child("0.1"), inner);
  const BlockPtr pair = std::make_shared<Pair>();
  EXPECT_EQ(message_of<NotFound>([&] { pair->child("haed"); }),
            "child: there is no 'haed': Pair has first, head; did you mean 'head'?");
}

TEST(BlockParts, AReplacedChildIsCalledWhereTheOldOneWas) {
  const BlockPtr pair = std::make_shared<Pair>();
  pair->replace_child("head", dense(5));
  pair->initialize();
  EXPECT_EQ((*pair)(drawn({4, 6}, 1)).shape(), (Shape{4, 5}));
  EXPECT_EQ(pair->parameter("head.weight").shape(), (Shape{5, 3}));
  EXPECT_EQ(pair->parameters().size(), 4u);
}

TEST(BlockParts, AChildMayBeReplacedByABlockAroundIt) {
  const BlockPtr pair = std::make_shared<Pair>();
  pair->initialize();
  const Tensor x = drawn({4, 6}, 1);
  const Floats before = (*pair)(x).to_vector<float>();
  pair->replace_child("head", sequential(pair->child("head"), times(2.0)));
  Floats doubled = before;
  for (float& value : doubled) value *= 2.0F;
  EXPECT_EQ((*pair)(x).to_vector<float>(), doubled);
  EXPECT_EQ(pair->parameters().back().name, "head.0.bias");
}

TEST(BlockParts, AReplacedChildMayBeReplacedAgainAndPutBack) {
  const BlockPtr pair = std::make_shared<Pair>();
  pair->initialize();
  const Tensor x = drawn({4, 6}, 1);
  const Floats before = (*pair)(x).to_vector<float>();
  const BlockPtr old = pair->child("head");
  pair->replace_child("head", times(1.0));
  pair->replace_child("head", dense(7));
  pair->initialize();
  EXPECT_EQ((*pair)(x).shape(), (Shape{4, 7}));
  pair->replace_child("head", old);
  EXPECT_EQ((*pair)(x).to_vector<float>(), before);
}

TEST(BlockParts, ACompiledBlockSeesThatAnInnerBlockWasReplaced) {
  const auto net = sequential(sequential(times(3.0)), times(1.0));
  net->hybridize();
  EXPECT_EQ((*net)(ones({1})).item(), 3.0);
  net->child("0")->replace_child("0", times(5.0));
  EXPECT_EQ((*net)(ones({1})).item(), 5.0);
}

TEST(BlockParts, OnlyThisParentsChildIsReplaced) {
  const auto shared = dense(2);
  const auto one = sequential(shared), other = sequential(shared);
  one->replace_child("0", dense(3));
  other->initialize();
  EXPECT_EQ((*other)(drawn({1, 4}, 1)).shape(), (Shape{1, 2}));
}

TEST(BlockParts, AReplacementIsThatOfOneName) {
  const auto twice = times(2.0);
  const auto net = sequential(twice, times(10.0), twice);
  net->replace_child("2", times(3.0));
  EXPECT_EQ((*net)(ones({1})).item(), 60.0);
  const auto plus = lambda([](const Tensor& x) { return x + 1.0; });
  const auto pair = sequential(plus, twice);
  pair->replace_child("0", twice);
  pair->replace_child("1", plus);
  EXPECT_EQ((*pair)(ones({1})).item(), 3.0);
}

TEST(BlockParts, ChildrenWhoseCallsCannotBeToldApartAreNotReplaced) {
  const BlockPtr pair = std::make_shared<Pair>();
  const BlockPtr first = pair->child("first"), head = pair->child("head");
  pair->replace_child("first", head);
  EXPECT_EQ(message_of([&] { pair->replace_child("head", first); }),
            "replace_child: 'head' of Pair is the same block as its 'first', whose calls cannot be "
            "told apart");
  const BlockPtr other = std::make_shared<Pair>();
  const BlockPtr old = other->child("first");
  other->replace_child("first", dense(4));
  EXPECT_EQ(message_of([&] { other->replace_child("head", old); }),
            "replace_child: 'head' of Pair would be a block that was another child of it, whose "
            "calls cannot be told apart");
}

TEST(BlockParts, ABlockDoesNotBecomeAPartOfItself) {
  const auto net = sequential(sequential(times(2.0), times(3.0)), times(1.0));
  EXPECT_EQ(message_of([&] { net->replace_child("0.1", net->child("0")); }),
            "replace_child: '0.1' would be Sequential, which contains it");
  EXPECT_EQ(message_of([&] { net->replace_child("0.1", sequential(net)); }),
            "replace_child: '0.1' would be Sequential, which contains it");
  EXPECT_EQ((*net)(ones({1})).item(), 6.0);
  const auto inner = sequential(times(2.0)), outer = sequential(inner);
  EXPECT_EQ(message_of([&] { inner->add(outer); }),
            "block: child '1' is Sequential, which contains the block");
}

TEST(BlockParts, AReplacementIsAnotherBlock) {
  const auto net = sequential(dense(2));
  EXPECT_EQ(message_of([&] { net->replace_child("0", nullptr); }),
            "replace_child: '0' would be null");
  EXPECT_EQ(message_of([&] { net->replace_child("0", net); }),
            "replace_child: '0' would be the block itself");
  EXPECT_THROW(net->replace_child("0.1", dense(2)), NotFound);
}

TEST(BlockParts, PartsAreFrozenByPatterns) {
  const auto net = sequential(dense(2), batch_norm(), dense(3));
  net->freeze("^[01]\\.");
  EXPECT_TRUE(net->parameter("1.running_mean").is_frozen());
  EXPECT_FALSE(net->parameter("2.weight").is_frozen());
  net->freeze();
  net->unfreeze("^2\\.");
  EXPECT_TRUE(net->parameter("0.bias").is_frozen());
  EXPECT_TRUE(net->parameter("2.weight").wants_gradient());
  EXPECT_EQ(message_of<NotFound>([&] { net->freeze("^fc"); }),
            "freeze: no parameter's name matches '^fc' (there are: 0.weight, 0.bias, 1.gamma, "
            "1.beta, 1.running_mean, 1.running_var, 2.weight, 2.bias)");
}

TEST(BlockParts, MultipliersAreSetByPatterns) {
  const auto net = sequential(dense(2), dense(3));
  net->set_multipliers("^0\\.", 0.1);
  net->set_multipliers("bias$", 2.0, 0.0);
  EXPECT_EQ(net->parameter("0.weight").options().rate_multiplier, 0.1);
  EXPECT_EQ(net->parameter("0.bias").options().rate_multiplier, 2.0);
  EXPECT_EQ(net->parameter("1.bias").options().decay_multiplier, 0.0);
  EXPECT_EQ(net->parameter("1.weight").options().rate_multiplier, 1.0);
  EXPECT_THROW(net->set_multipliers("^head", 10.0), NotFound);
  EXPECT_EQ(message_of([&] { net->set_multipliers("^0", -1.0); }),
            "set_multipliers: '^0' has rate -1 and decay 1, expected 0 or more");
}

TEST(FeatureExtractor, GivesWhatInnerBlocksGave) {
  const auto net = sequential(sequential(dense(3), relu()), dense(2));
  net->initialize();
  const Tensor x = drawn({4, 5}, 1);
  const auto inner = feature_extractor(net, {"0.1", "1", "0"});
  const std::vector<Tensor> features = testing::run_both_ways(*inner, std::vector{x});
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[0].shape(), (Shape{4, 3}));
  EXPECT_EQ(features[1].to_vector<float>(), (*net)(x).to_vector<float>());
  EXPECT_EQ(features[2].to_vector<float>(), features[0].to_vector<float>());
  EXPECT_EQ((*inner)(x).to_vector<float>(), features[0].to_vector<float>());
}

TEST(FeatureExtractor, FollowsAHybridizedNetAndShowsInASummary) {
  const auto net = sequential(dense(3), dense(2));
  net->initialize();
  net->hybridize();
  const auto inner = feature_extractor(net, {"0"});
  EXPECT_EQ((*inner)(drawn({4, 5}, 1)).shape(), (Shape{4, 3}));
  const std::string table = inner->summary({drawn({4, 5}, 1).info()});
  EXPECT_NE(table.find("net.1 (Dense(2))"), std::string::npos) << table;
}

TEST(FeatureExtractor, GivesWhatHooksMadeOfAFeature) {
  const auto net = sequential(times(2.0), times(5.0));
  net->child("0")->register_forward_pre_hook(
      [](Block&, const std::vector<Tensor>& x) { return std::vector{x[0] * 10.0}; });
  net->child("0")->register_forward_hook(
      [](Block&, const std::vector<Tensor>&, const std::vector<Tensor>& y) {
        return std::vector{concat({y[0], y[0] + 1.0})};
      });
  const Tensor feature = (*feature_extractor(net, {"0"}))(ones({1}));
  EXPECT_EQ(feature.to_vector<float>(), (Floats{20, 21}));
  const std::string table = net->summary({ones({1}).info()});
  EXPECT_NE(table.find("0 (Lambda)  [2]"), std::string::npos) << table;
}

TEST(FeatureExtractor, HasGradients) {
  const auto net = sequential(dense(3), dense(2));
  net->initialize();
  const auto inner = feature_extractor(net, {"0"});
  const autograd::RecordScope record;
  autograd::backward((*inner)(drawn({4, 5}, 1)));
  EXPECT_TRUE(net->parameter("0.weight").grad().defined());
}

TEST(FeatureExtractor, EachBlockIsThereAndCalledOnce) {
  const auto twice = relu();
  const auto net = sequential(twice, twice);
  EXPECT_THROW(feature_extractor(net, {"2"}), NotFound);
  EXPECT_EQ(message_of([&] { (*feature_extractor(net, {"0"}))(ones({2})); }),
            "feature_extractor: '0' was called 2 times, expected once");
  EXPECT_EQ(message_of([&] { feature_extractor(net, {}); }),
            "feature_extractor: needs a net and the paths of blocks in it");
}

TEST(FeatureExtractor, ReadsAModelsStages) {
  const BlockPtr net = models::cifar_resnet18();
  net->initialize();
  const std::vector<Tensor> features =
      (*feature_extractor(net, {"layer1", "fc"}))(std::vector{ones({1, 3, 8, 8})});
  EXPECT_EQ(features.at(0).shape(), (Shape{1, 64, 8, 8}));
  EXPECT_EQ(features.at(1).shape(), (Shape{1, 10}));
}

}  // namespace
}  // namespace lockstep::nn
