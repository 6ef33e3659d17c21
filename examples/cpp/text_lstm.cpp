// SPDX-License-Identifier: Apache-2.0
// Is this mail spam? Words become numbers, an LSTM reads them, and the trained net is asked about a
// sentence of ours.
//
//   text_lstm [FOLDER|synthetic] [STEPS]        text_lstm $(lockstep data get spam-assassin)
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

namespace {

// [N, T] word numbers to [N, 2] scores: the LSTM's state after the last word decides.
class Reader final : public nn::Block {
 public:
  explicit Reader(std::int64_t words)
      : words_(add_child("words", nn::embedding(words, 64))),
        lstm_(add_child("lstm", nn::lstm(64, {.layout = "NTC"}))),
        scores_(add_child("scores", nn::dense(2))) {}

  Tensor forward(const Tensor& x) override {
    const Tensor states = (*lstm_)((*words_)(x));
    return (*scores_)(squeeze(slice_axis(states, 1, x.shape(1) - 1, x.shape(1)), {1}));
  }

 private:
  nn::BlockPtr words_, lstm_, scores_;
};

}  // namespace

int main(int argc, char** argv) {
  const recipes::Recipe& recipe = recipes::find_recipe("text-lstm");
  const recipes::RecipeData mails =
      recipes::open_data(recipe, {.place = argc > 1 ? argv[1] : "synthetic"});
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 600;

  const auto net = std::make_shared<Reader>(recipe.input_range);
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::adam({.learning_rate = 2e-3, .clip_norm = 1.0}),
                         {.global_batch = 32, .shards = 8, .threads = 2, .seed = 1});
  const train::FitResult result = trainer.fit(mails.train, {.steps = steps,
                                                            .schedule = optim::cosine(2e-3, steps),
                                                            .callbacks = {train::show_progress()},
                                                            .validation = mails.test});
  fmt::print("accuracy on mails it has not seen: {:.4f}\n", result.validation.accuracy);

  if (!mails.codec) return 0;  // generated data has no words
  const std::vector<std::int64_t> numbers =
      mails.codec->encode("Congratulations! Click here to claim your free money now.");
  const Tensor chances =
      softmax((*net)(Tensor::from(numbers, {1, static_cast<std::int64_t>(numbers.size())})));
  fmt::print("ham, spam: {}\n", chances.str());
}
