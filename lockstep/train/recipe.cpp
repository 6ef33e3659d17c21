// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/recipe.h"

#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/loss.h"
#include "lockstep/ops/reduce.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kWords = 10000;
constexpr std::int64_t kTextLength = 100;
constexpr std::int64_t kCharacters = 96;
constexpr std::int64_t kContext = 128;

// Mean and deviation of the training pixels.
data::Transform digits() { return data::to_tensor({0.1307F}, {0.3081F}); }
data::Transform clothes() { return data::to_tensor({0.2860F}, {0.3530F}); }
data::Transform photos() {
  return data::to_tensor({0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F});
}

data::Transform moved_digits() { return data::compose({data::random_crop(28, 28, 2), digits()}); }
data::Transform moved_clothes() {
  return data::compose({data::random_crop(28, 28, 1), data::random_flip_left_right(), clothes()});
}
data::Transform moved_photos() {
  return data::compose({data::random_crop(32, 32, 4), data::random_flip_left_right(), photos()});
}

// Nesterov's momentum, then down to nothing along a cosine.
Learning momentum(double rate, double decay, double warm_up) {
  return {.optimizer = "nag",
          .learning_rate = rate,
          .parameters = {{"momentum", 0.9}, {"wd", decay}},
          .warm_up = warm_up};
}

nn::BlockPtr mlp(double dropout, std::int64_t classes) {
  return nn::models::mlp({.classes = classes, .dropout = dropout});
}
nn::BlockPtr lenet(double dropout, std::int64_t classes) {
  return nn::models::lenet({.classes = classes, .dropout = dropout});
}
nn::BlockPtr cnn(double dropout, std::int64_t classes) {
  return nn::models::cifar_cnn({.width = 64, .classes = classes, .dropout = dropout});
}
nn::BlockPtr resnet18(double, std::int64_t classes) { return nn::models::cifar_resnet18(classes); }
nn::BlockPtr lstm(double dropout, std::int64_t classes) {
  return nn::models::lstm_classifier(
      {.vocabulary = kWords, .classes = classes, .dropout = dropout});
}
nn::BlockPtr gpt(double dropout, std::int64_t) {
  return nn::models::gpt({.vocabulary = kCharacters, .context = kContext, .dropout = dropout});
}

Recipe mnist_mlp() {
  return {.name = "mnist-mlp",
          .summary = "handwritten digits, two dense layers",
          .dataset = "mnist",
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .epochs = 10,
          .bench_batch = 128,
          .learning = momentum(0.05, 1e-4, 0.02),
          .model = mlp,
          .train_transform = digits,
          .test_transform = digits};
}

Recipe mnist_lenet() {
  return {.name = "mnist-lenet",
          .summary = "handwritten digits, two convolutions",
          .dataset = "mnist",
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .epochs = 5,
          .bench_batch = 64,
          .learning = momentum(0.05, 1e-4, 0.02),
          .model = lenet,
          .train_transform = moved_digits,
          .test_transform = digits};
}

Recipe fashion_lenet() {
  return {.name = "fashion-lenet",
          .summary = "clothes in 28x28 pixels, two convolutions",
          .dataset = "fashion-mnist",
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .epochs = 8,
          .bench_batch = 64,
          .learning = momentum(0.05, 2e-4, 0.02),
          .model = lenet,
          .train_transform = moved_clothes,
          .test_transform = clothes};
}

Recipe cifar_cnn() {
  return {.name = "cifar-cnn",
          .summary = "photos of ten kinds in 32x32 pixels, two convolutions",
          .dataset = "cifar10",
          .sample_shape = {3, 32, 32},
          .classes = 10,
          .epochs = 10,
          .bench_batch = 128,
          .learning = momentum(0.1, 5e-4, 0.05),
          .model = cnn,
          .train_transform = moved_photos,
          .test_transform = photos};
}

Recipe cifar_resnet18() {
  return {.name = "cifar-resnet18",
          .summary = "the same photos, a residual net of 18 layers",
          .dataset = "cifar10",
          .sample_shape = {3, 32, 32},
          .classes = 10,
          .has_batch_norm = true,
          .epochs = 30,
          .bench_batch = 32,
          .learning = momentum(0.1, 5e-4, 0.05),
          .model = resnet18,
          .train_transform = moved_photos,
          .test_transform = photos};
}

Recipe text_lstm() {
  return {.name = "text-lstm",
          .summary = "spam or not: the first 100 words of a mail, one LSTM layer",
          .dataset = "spam-assassin",
          .task = Task::texts,
          .sample_shape = {kTextLength},
          .input_dtype = DType::int64,
          .input_range = kWords,
          .classes = 2,
          .global_batch = 32,
          .epochs = 5,
          .bench_batch = 32,
          .learning = {.optimizer = "adam",
                       .learning_rate = 1e-3,
                       .parameters = {{"clip_norm", 1.0}},
                       .warm_up = 0.05},
          .model = lstm,
          .dropout = 0.3};
}

Recipe char_gpt() {
  return {.name = "char-gpt",
          .summary = "writes like Moby Dick, letter by letter: a GPT of 4 blocks",
          .dataset = "moby-dick",
          .task = Task::characters,
          .sample_shape = {kContext},
          .input_dtype = DType::int64,
          .input_range = kCharacters,
          .label_shape = {kContext},
          .classes = kCharacters,
          .global_batch = 32,
          .epochs = 4,
          .bench_batch = 8,
          .learning = {.optimizer = "adamw",
                       .learning_rate = 2e-3,
                       .parameters = {{"wd", 0.1}, {"beta2", 0.99}, {"clip_norm", 1.0}},
                       .warm_up = 0.05},
          .model = gpt,
          .dropout = 0.1};
}

Shape with_batch(std::int64_t batch, Shape sample) {
  sample.insert(0, batch);
  return sample;
}

}  // namespace

std::vector<TensorInfo> Recipe::fields(std::int64_t batch) const {
  return {{with_batch(batch, sample_shape), input_dtype, {}},
          {with_batch(batch, label_shape), DType::int64, {}}};
}

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all{mnist_mlp(), mnist_lenet(),    fashion_lenet(),
                                       cifar_cnn(), cifar_resnet18(), text_lstm(),
                                       char_gpt()};
  return all;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  return names;
}

const Recipe& find_recipe(std::string_view name) {
  for (const Recipe& recipe : recipes())
    if (recipe.name == name) return recipe;
  throw NotFound("recipe: there is no '{}' (there are: {})", name, fmt::join(recipe_names(), ", "));
}

LossFunction recipe_loss() {
  return {[](const Tensor& output, const Tensor& label) {
            return mean(softmax_cross_entropy(output, label));
          },
          [](const Tensor& output, const Tensor& label) {
            return nn::SoftmaxCrossEntropyLoss().classes(output, label);
          }};
}

}  // namespace lockstep::train
