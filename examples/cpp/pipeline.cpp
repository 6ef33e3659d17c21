// SPDX-License-Identifier: Apache-2.0
// A net in two segments: on one process, on a pipeline of two, or on two such pipelines, with the
// same bits.
//
//   pipeline [FOLDER|synthetic] [STEPS]
//   lockstep launch --workers 2 -- pipeline
//   lockstep launch --workers 4 -- pipeline
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/join_job.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

void train_digits(const std::string& place, std::int64_t steps) {
  const train::OwnJob own = train::join_job();
  const recipes::RecipeData digits =
      recipes::open_data(recipes::find_recipe("mnist-lenet"), {.place = place});
  const nn::BlockPtr net =
      nn::sequential(nn::conv2d(32, 3, {.padding = 1, .activation = "relu"}), nn::max_pool2d(2),
                     nn::conv2d(64, 3, {.padding = 1, .activation = "relu"}), nn::max_pool2d(2),
                     nn::flatten(), nn::dense(128, {.activation = "relu"}), nn::dense(10));

  // Every two workers are a pipeline: the first has the convolution, the second all that follows.
  std::unique_ptr<kvstore::Mode> stages;
  if (own.job)
    stages = kvstore::mesh_mode(own.job->communicator(), own.job->membership(), {.stages = 2});

  // The model does not know of it; the second segment begins with block "2".
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::sgd({.learning_rate = 0.1, .momentum = 0.9}),
                         {.global_batch = 128,
                          .seed = 1,
                          .mesh = {.shards = 16, .cuts = {"2"}},
                          .mode = stages ? stages.get() : own.mode.get()});
  const data::Transform pixels = data::to_tensor({0.1307F}, {0.3081F});
  const train::FitResult result = trainer.fit(digits.train, {.steps = steps,
                                                             .transform = pixels,
                                                             .validation = digits.test,
                                                             .validation_transform = pixels});
  if (!own.is_first()) return;  // one speaks for all
  fmt::print("accuracy {:.4f}\n", result.validation.accuracy);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}

int main(int argc, char** argv) {
  try {
    train_digits(argc > 1 ? argv[1] : "synthetic", argc > 2 ? std::atoll(argv[2]) : 1000);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "pipeline: {}\n", error.what());
    return 1;
  }
}
