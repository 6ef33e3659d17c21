// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {
namespace {

constexpr std::int64_t kWords = 10000;
constexpr std::int64_t kTextLength = 100;

nn::BlockPtr lstm(double dropout, std::int64_t classes) {
  return nn::models::lstm_classifier(
      {.vocabulary = kWords, .classes = classes, .dropout = dropout});
}

}  // namespace

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

}  // namespace lockstep::recipes
