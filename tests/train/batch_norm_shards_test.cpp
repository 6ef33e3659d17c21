// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/train/trainer.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

data::DatasetPtr random_set(const Shape& shape) {
  const RandomScope draws(random_key(3));
  const Tensor x = normal(shape);
  const Tensor labels =
      cast(slice(reshape(x, {shape[0], -1}), {0, 0}, {shape[0], 1}) > 0.0, DType::int64);
  return std::make_shared<data::ArrayDataset>(data::Fields{x, reshape(labels, {-1})});
}

std::vector<std::string> warnings(nn::BlockPtr net, const Shape& shape, std::int64_t shards) {
  Trainer trainer(std::move(net), nn::SoftmaxCrossEntropyLoss(), optim::sgd({}),
                  {.global_batch = shape[0], .shards = shards});
  return trainer.fit(random_set(shape), {.steps = 2}).warnings;
}

nn::BlockPtr dense_net() {
  return nn::sequential(nn::dense(8), nn::batch_norm(), nn::relu(), nn::dense(2));
}

nn::BlockPtr conv_net() {
  return nn::sequential(nn::conv2d(4, 3, {.padding = 1}), nn::batch_norm(), nn::relu(),
                        nn::dense(2));
}

TEST(BatchNormShards, OneValuePerChannelIsAnErrorThatNamesTheLayer) {
  EXPECT_EQ(message_of([] {
              warnings(dense_net(), {16, 5}, 16);
            }),
            "1 (BatchNorm): batch_norm: 1 gets shape [1, 8]: one value per channel has no variance "
            "to train with; "
            "use a larger batch, or fewer shards");
}

TEST(BatchNormShards, FewValuesAreOneWarningThatNamesTheRemedy) {
  EXPECT_EQ(warnings(dense_net(), {16, 5}, 8),
            (std::vector<std::string>{
                "batch norm 1 takes its statistics from 2 values per channel in a shard of 2 "
                "samples, which costs accuracy: use fewer shards or a larger global batch, 16 "
                "samples a shard or more"}));
  EXPECT_EQ(warnings(conv_net(), {16, 1, 4, 4}, 8),
            (std::vector<std::string>{
                "batch norm 1 takes its statistics from 32 values per channel in a shard of 2 "
                "samples, which costs accuracy: use fewer shards or a larger global batch, 8 "
                "samples a shard or more"}));
}

TEST(BatchNormShards, EnoughValuesAreNotSpokenOf) {
  EXPECT_TRUE(warnings(dense_net(), {16, 5}, 1).empty());
  EXPECT_TRUE(warnings(conv_net(), {16, 1, 4, 4}, 2).empty());
  EXPECT_TRUE(warnings(nn::sequential(nn::dense(2)), {16, 5}, 16).empty());
}

TEST(BatchNormShards, FrozenOnesTakeNone) {
  const auto net = nn::sequential(nn::dense(8), nn::batch_norm(), nn::relu(), nn::dense(2));
  (*net)[1].freeze();
  EXPECT_TRUE(warnings(net, {16, 5}, 16).empty());
}

TEST(BatchNormShards, RecipesAndDefaultsHaveEnough) {
  EXPECT_EQ(default_shards(TrainerOptions().global_batch), 8);
  for (const auto& [batch, shards] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {64, 8}, {48, 6}, {32, 4}, {16, 2}, {13, 1}, {7, 1}, {1, 1}, {100, 5}})
    EXPECT_EQ(default_shards(batch), shards) << batch;
  EXPECT_TRUE(warnings(conv_net(), {16, 1, 4, 4}, 0).empty());
  for (const recipes::Recipe& recipe : recipes::all_recipes()) {
    const std::vector<TensorInfo> fields = recipe.fields(recipe.global_batch / recipe.shards);
    const nn::BlockPtr net = recipe.net();
    net->initialize();
    for (const BatchNormSize& norm :
         batch_norm_sizes(trace_step(*net, recipe.loss(), fields, recipe.roles()))) {
      EXPECT_GE(norm.samples, 8) << recipe.name << " " << norm.layer;
      EXPECT_GE(norm.values, 16) << recipe.name << " " << norm.layer;
    }
  }
}

}  // namespace
}  // namespace lockstep::train
