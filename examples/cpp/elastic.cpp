// SPDX-License-Identifier: Apache-2.0
// Handwritten digits on workers that may be lost, replaced, or told to leave: the same bits.
//
//   elastic [FOLDER|synthetic] [STEPS]
//   lockstep launch --workers 4 -- elastic      kill -9 one of them: the others go on
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/join_job.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

void train_digits(const std::string& place, std::int64_t steps) {
  // All that it takes: a job that survives, and a trainer that knows how.
  const train::OwnJob own = train::join_job({.survives = true});
  const recipes::RecipeData digits =
      recipes::open_data(recipes::find_recipe("mnist-mlp"), {.place = place});
  const nn::BlockPtr net =
      nn::sequential(nn::flatten(), nn::dense(128, {.activation = "relu"}), nn::dense(10));
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::sgd({.learning_rate = 0.1, .momentum = 0.9}),
                         {.global_batch = 128,
                          .shards = 8,
                          .seed = 1,
                          .mode = own.mode.get(),
                          .survival = own.survival.get()});
  const data::Transform pixels = data::to_tensor({0.1307F}, {0.3081F});
  const train::FitResult result = trainer.fit(digits.train, {.steps = steps,
                                                             .transform = pixels,
                                                             .validation = digits.test,
                                                             .validation_transform = pixels});
  if (result.is_dismissed || !result.is_first) return;  // the first of those that are left speaks
  fmt::print("accuracy {:.4f}\n", result.validation.accuracy);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}

int main(int argc, char** argv) {
  try {
    train_digits(argc > 1 ? argv[1] : "synthetic", argc > 2 ? std::atoll(argv[2]) : 1000);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "elastic: {}\n", error.what());
    return 1;
  }
}
