// SPDX-License-Identifier: Apache-2.0
// Data and model parallelism at once: replicas of a net that is divided among several workers, by
// its length (stages) and by its width (slices of its layers). How many workers share each is a
// word of the command line, and the bits are the same for all of them.
//
//   hybrid [FOLDER|synthetic] [STEPS] [STAGES] [TENSOR]
//   lockstep launch --workers 4 -- hybrid synthetic 200 2     two replicas of two stages
//   lockstep launch --workers 3 -- hybrid synthetic 200 3     one replica of three
//   lockstep launch --workers 4 -- hybrid synthetic 200 2 2   one of two stages, two workers each
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/join_job.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

void train_letters(const std::string& place, std::int64_t steps,
                   const kvstore::ReplicaShape& shape) {
  const train::OwnJob own = train::join_job();
  const recipes::RecipeData text =
      recipes::open_data(recipes::find_recipe("char-gpt"), {.place = place});
  const nn::BlockPtr net =
      nn::models::gpt({.vocabulary = 96, .context = 128, .width = 32, .heads = 2, .blocks = 3});

  std::unique_ptr<kvstore::Mode> mesh;
  if (own.job && shape.workers() > 1)
    mesh = kvstore::mesh_mode(own.job->communicator(), own.job->membership(), shape);

  // Three segments, two slices and eight shards are the mesh: what the bits depend on.
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(), optim::adam({.learning_rate = 0.003}),
                         {.global_batch = 16,
                          .seed = 1,
                          .mesh = {.shards = 8, .cuts = {"blocks.1", "blocks.2"}, .slices = 2},
                          .mode = mesh ? mesh.get() : own.mode.get()});
  const train::FitResult result = trainer.fit(text.train, {.steps = steps});
  if (!own.is_first()) return;  // one speaks for all
  fmt::print("loss {:.4f}\nparams_sha256 {}\n", result.train_loss, result.params_sha256);
}

int main(int argc, char** argv) {
  try {
    train_letters(
        argc > 1 ? argv[1] : "synthetic", argc > 2 ? std::atoll(argv[2]) : 200,
        {.stages = argc > 3 ? std::atoi(argv[3]) : 1, .tensor = argc > 4 ? std::atoi(argv[4]) : 1});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hybrid: {}\n", error.what());
    return 1;
  }
}
