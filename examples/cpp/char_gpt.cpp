// SPDX-License-Identifier: Apache-2.0
// A small GPT learns a book letter by letter, then writes on by itself.
//
//   char_gpt [FOLDER|synthetic] [STEPS]        char_gpt $(lockstep data get moby-dick)
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/nn/generate.h"
#include "lockstep/nn/loss.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

int main(int argc, char** argv) {
  const recipes::Recipe& recipe = recipes::find_recipe("char-gpt");
  const recipes::RecipeData book =
      recipes::open_data(recipe, {.place = argc > 1 ? argv[1] : "synthetic"});
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 1500;

  const nn::BlockPtr net =
      nn::models::gpt({.vocabulary = 96, .context = 128, .width = 128, .heads = 4, .blocks = 3});
  fmt::print("{}\n", net->summary({recipe.fields(1).front()}));
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::adamw({.weight_decay = 0.01, .clip_norm = 1.0}),
                         {.global_batch = 16, .shards = 8, .threads = 2, .seed = 1});
  const train::FitResult result =
      trainer.fit(book.train, {.steps = steps,
                               .schedule = optim::cosine(2e-3, steps, 0.0, {.steps = steps / 20}),
                               .callbacks = {train::show_progress()},
                               .validation = book.test});
  fmt::print("loss on pages it has not seen: {:.3f} nats per character\n", result.validation.loss);

  // What comes next depends on the seed alone. Generated data has no letters: numbers will do.
  const nn::GenerateOptions how{.context = 128, .length = 300, .temperature = 0.8, .seed = 1};
  net->hybridize();
  if (book.codec)
    fmt::print("{}\n", book.codec->decode(nn::generate(*net, book.codec->encode("Call me "), how)));
  else
    fmt::print("{} numbers written\n", nn::generate(*net, {1, 2, 3}, how).size());
}
