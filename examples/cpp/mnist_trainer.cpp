// SPDX-License-Identifier: Apache-2.0
// Handwritten digits with a convolutional net and the Trainer: shards, threads, evaluation.
//
//   mnist_trainer [FOLDER|synthetic] [STEPS]        mnist_trainer $(lockstep data get mnist)
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

int main(int argc, char** argv) {
  const recipes::Recipe& recipe = recipes::find_recipe("mnist-lenet");
  const recipes::RecipeData digits =
      recipes::open_data(recipe, {.place = argc > 1 ? argv[1] : "synthetic"});
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 1000;

  const nn::BlockPtr net =
      nn::sequential(nn::conv2d(32, 3, {.padding = 1, .activation = "relu"}), nn::max_pool2d(2),
                     nn::conv2d(64, 3, {.padding = 1, .activation = "relu"}), nn::max_pool2d(2),
                     nn::flatten(), nn::dense(128, {.activation = "relu"}), nn::dense(10));

  // Eight shards a step on two threads: one thread, or eight, give the same bits.
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::sgd({.momentum = 0.9, .nesterov = true}),
                         {.global_batch = 128, .shards = 8, .threads = 2, .seed = 1});

  const data::Transform pixels = data::to_tensor({0.1307F}, {0.3081F});
  const train::FitResult result =
      trainer.fit(digits.train, {.steps = steps,
                                 .transform = data::compose({data::random_crop(28, 28, 2), pixels}),
                                 .schedule = optim::cosine(0.1, steps),
                                 .callbacks = {train::show_progress()},
                                 .validation = digits.test,
                                 .validation_transform = pixels});

  fmt::print("{}\n", net->summary({recipe.fields(1).front()}));
  fmt::print("accuracy on digits it has not seen: {:.4f}\n", result.validation.accuracy);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}
