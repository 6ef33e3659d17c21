// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/recipe.h"

#include <gtest/gtest.h>

#include <set>

#include "lockstep/base/error.h"
#include "lockstep/nn/generate.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/recipes/synthetic.h"
#include "tests/message.h"

namespace lockstep::recipes {
namespace {

using lockstep::testing::message_of;

TEST(Recipe, EveryNameOfTheDesignIsThere) {
  EXPECT_EQ(recipe_names(),
            (std::vector<std::string>{"mnist-mlp", "mnist-lenet", "fashion-lenet", "cifar-cnn",
                                      "cifar-resnet18", "vit-small", "text-lstm", "char-gpt",
                                      "gpt-wide", "recsys-mf", "recsys-dlrm"}));
  EXPECT_EQ(find_recipe("char-gpt").dataset, "moby-dick");
  EXPECT_THROW(find_recipe("vgg"), NotFound);
}

TEST(Recipe, DefaultsCanBeMeant) {
  for (const Recipe& recipe : all_recipes()) {
    EXPECT_EQ(recipe.global_batch % recipe.shards, 0) << recipe.name;
    EXPECT_NO_THROW(make_optimizer(recipe.learning)) << recipe.name;
    const optim::Schedule schedule = make_schedule(recipe.learning, 1000);
    EXPECT_GT(schedule.rate(500), 0) << recipe.name;
    EXPECT_LE(schedule.rate(999), recipe.learning.learning_rate) << recipe.name;
  }
}

// A net that adds up a photo's patches sees how bright it is.
TEST(Recipe, PhotosInPatchesAreAsBrightInTrainingAsInTests) {
  const Recipe recipe = find_recipe("vit-small");
  const data::DatasetPtr photos = synthetic_data(recipe, true);
  const auto brightness = [&](const data::Transform& transform) {
    double total = 0.0;
    for (std::uint32_t i = 0; i < 200; ++i)
      total += mean(transform.apply(photos->sample(i)[0], {1, i, 0, 0})).item();
    return total / 200;
  };
  EXPECT_NEAR(brightness(recipe.train_transform()), brightness(recipe.test_transform()), 0.03);
}

TEST(Recipe, NetsThatComeInSizesHaveTheirOwnAndOthers) {
  EXPECT_EQ(sized_recipe_names(), (std::vector<std::string>{"vit-small", "char-gpt", "gpt-wide"}));
  const auto parameters = [](const Recipe& recipe) {
    std::int64_t count = 0;
    for (const auto& [name, parameter] : recipe.net()->parameters())
      count += parameter.shape().numel();
    return count;
  };
  EXPECT_GT(parameters(find_recipe("gpt-wide")), 100'000'000);
  EXPECT_EQ(parameters(with_size(find_recipe("gpt-wide"), {})),
            parameters(find_recipe("gpt-wide")));
  const Recipe small = with_size(find_recipe("gpt-wide"), {.width = 64, .blocks = 2});
  EXPECT_EQ(parameters(small),
            2 * (12 * 64 * 64 + 13 * 64) + (96 + 128) * 64 + 2 * 64 + 96 * 64 + 96);
  EXPECT_EQ(message_of([] { with_size(find_recipe("mnist-mlp"), {.blocks = 2}); }),
            "mnist-mlp: has one size; those with others: vit-small, char-gpt, gpt-wide");
  EXPECT_EQ(message_of([] { with_size(find_recipe("vit-small"), {.width = 40}); }),
            "vit-small: a width of 40, expected a multiple of 32, the width of a head");
}

TEST(Recipe, AnUnknownScheduleOrARateOfZeroIsRefused) {
  EXPECT_EQ(message_of<NotFound>([] { make_schedule({.schedule = "sine"}, 10); }),
            "schedule: there is no 'sine' (there are: constant, cosine, linear, steps)");
  EXPECT_EQ(message_of([] { make_optimizer({.learning_rate = 0.0}); }),
            "learning rate: got 0, expected a number above 0");
  EXPECT_EQ(message_of([] { make_schedule({.warm_up = 1.0}, 10); }),
            "warm-up: got 1, expected a part of the run, 0 up to 1");
}

TEST(Synthetic, SamplesFitTheNetAndItsLabels) {
  for (const Recipe& recipe : all_recipes()) {
    const data::DatasetPtr set = synthetic_data(recipe, false);
    data::Fields sample = set->sample(3);
    if (recipe.test_transform != nullptr) sample[0] = recipe.test_transform().apply(sample[0], {});
    for (Tensor& field : sample) field = expand_dims(field, 0);
    EXPECT_EQ(data::infos_of(sample), recipe.fields(1)) << recipe.name;
    if (recipe.is_recommender()) continue;  // rating_data_test.cpp
    for (const auto label : sample[1].to_vector<std::int64_t>()) {
      EXPECT_GE(label, 0);
      EXPECT_LT(label, recipe.classes);
    }
  }
}

TEST(Synthetic, TrainingAndTestSamplesDifferAndRepeat) {
  const Recipe& recipe = find_recipe("mnist-mlp");
  const auto pixels = [&](bool train) {
    return synthetic_data(recipe, train)->sample(0)[0].to_vector<int>();
  };
  EXPECT_EQ(pixels(true), pixels(true));
  EXPECT_NE(pixels(true), pixels(false));
}

// Says the number after the last one that it can see at each place.
class Counting final : public nn::Block {
 public:
  Tensor forward(const Tensor& x) override {
    const std::int64_t length = x.shape(1);
    const Tensor logits = Tensor::zeros({1, length, 10});
    for (std::int64_t t = 0; t < length; ++t)
      logits.data<float>()[t * 10 + (x.data<std::int64_t>()[t] + 1) % 10] = 9.0F;
    return logits;
  }
};

TEST(Generate, GoesOnFromThePromptsEndPastTheContext) {
  Counting net;
  EXPECT_EQ(generate(net, {3, 4}, {.context = 4, .length = 5, .temperature = 0}),
            (std::vector<std::int64_t>{3, 4, 5, 6, 7, 8, 9}));
}

TEST(Generate, ADrawIsAFunctionOfTheSeed) {
  Counting net;
  const auto text = [&](std::uint64_t seed) {
    return generate(net, {0}, {.context = 4, .length = 40, .temperature = 9, .seed = seed});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
  const std::vector<std::int64_t> drawn = text(1);
  EXPECT_GT(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 5U);
}

TEST(Generate, AnEmptyPromptIsRefused) {
  Counting net;
  EXPECT_EQ(message_of([&] { generate(net, {}); }), "generate: the prompt is empty");
}

}  // namespace
}  // namespace lockstep::recipes
