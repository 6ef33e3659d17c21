// SPDX-License-Identifier: Apache-2.0
// Parameter servers and the Trainer: the program of ps_by_hand, without its loop. Where the job has
// servers they keep the parameters and update them; the bits are those of one process.
//
//   ps_trainer [FOLDER|synthetic] [STEPS] [KVSTORE]
//   lockstep launch -n 2 -s 2 -- ps_trainer
//   lockstep launch -n 2 -s 1 -- ps_trainer synthetic 500 ps_async   (bits of their own, each time)
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"
#include "lockstep/recipes/recipe_data.h"

using namespace lockstep;

void train_digits(const std::string& place, std::int64_t steps, const std::string& kvstore) {
  // A server stays in here while there are workers.
  const train::OwnJob own = train::join_job({}, {.name = kvstore});
  const recipes::RecipeData digits =
      recipes::open_data(recipes::find_recipe("mnist-mlp"), {.place = place});
  const nn::BlockPtr net =
      nn::sequential(nn::flatten(), nn::dense(128, {.activation = "relu"}), nn::dense(10));
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::sgd({.learning_rate = 0.1, .momentum = 0.9}),
                         {.global_batch = 128, .shards = 4, .seed = 1, .mode = own.mode.get()});
  const train::FitResult result =
      trainer.fit(digits.train, {.steps = steps, .transform = data::to_tensor()});
  if (!own.is_first()) return;  // one speaks for all
  fmt::print("loss {:.4f}\n", result.train_loss);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}

int main(int argc, char** argv) {
  train_digits(argc > 1 ? argv[1] : "synthetic", argc > 2 ? std::atoll(argv[2]) : 500,
               argc > 3 ? argv[3] : "dist_sync");
}
