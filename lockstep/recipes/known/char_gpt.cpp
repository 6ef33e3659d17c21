// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {
namespace {

constexpr std::int64_t kCharacters = 96;
constexpr std::int64_t kContext = 128;

// What both letter by letter have; `head` is the width of one.
Recipe letters(const char* name, const char* summary, const NetSize& size, std::int64_t head) {
  return {.name = name,
          .summary = summary,
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
          .sized_model =
              [head](const NetSize& net, double dropout, std::int64_t) {
                return nn::models::gpt({.vocabulary = kCharacters,
                                        .context = kContext,
                                        .width = net.width,
                                        .heads = net.width / head,
                                        .blocks = static_cast<int>(net.blocks),
                                        .dropout = dropout});
              },
          .size = size,
          .head_width = head,
          .dropout = 0.1};
}

}  // namespace

Recipe char_gpt() {
  return letters("char-gpt", "writes like Moby Dick, letter by letter: a GPT of 4 blocks",
                 {.width = 256, .blocks = 4}, 32);
}

// Parameters and what Adam keeps for them, each twice, are 2.4 GB: more than a small machine has.
Recipe gpt_wide() {
  Recipe recipe = letters("gpt-wide", "the same of 100 million parameters, for several workers",
                          {.width = 1024, .blocks = 8}, 64);
  recipe.learning.learning_rate = 5e-4;
  return recipe;
}

}  // namespace lockstep::recipes
