// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {
namespace {

constexpr std::int64_t kCharacters = 96;
constexpr std::int64_t kContext = 128;

nn::BlockPtr gpt(double dropout, std::int64_t) {
  return nn::models::gpt({.vocabulary = kCharacters, .context = kContext, .dropout = dropout});
}

}  // namespace

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

}  // namespace lockstep::recipes
