// SPDX-License-Identifier: Apache-2.0
// A net that was trained on ten kinds of clothes learns to tell two of them, shoes from the rest:
// its file is loaded as far as it fits, its head is new, its first layers stay as they are.
//
//   fine_tune [FOLDER|synthetic] [STEPS]        fine_tune $(lockstep data get fashion-mnist)
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"
#include "lockstep/nn/feature_extractor.h"
#include "lockstep/recipes/recipe_data.h"

using namespace lockstep;

// The same images with another question.
data::DatasetPtr shoes_or_not(const data::Dataset& clothes, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::min(count, clothes.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  data::Fields fields = clothes.batch(numbers);
  for (std::int64_t i = 0; i < fields[1].numel(); ++i) {
    std::int64_t& label = fields[1].data<std::int64_t>()[i];
    label = label == 5 || label == 7 || label == 9 ? 1 : 0;
  }
  return std::make_shared<data::ArrayDataset>(fields, std::vector<std::string>{"other", "shoe"});
}

train::FitResult fit(const nn::BlockPtr& net, const data::DatasetPtr& set, std::int64_t steps) {
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(),
                         optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                         {.global_batch = 64, .shards = 8, .threads = 2, .seed = 1});
  return trainer.fit(set, {.steps = steps, .transform = data::to_tensor({0.286F}, {0.353F})});
}

int main(int argc, char** argv) {
  const recipes::RecipeData clothes = recipes::open_data(
      recipes::find_recipe("fashion-lenet"), {.place = argc > 1 ? argv[1] : "synthetic"});
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 300;

  const nn::BlockPtr trained = nn::models::lenet({.classes = 10});
  fit(trained, clothes.train, steps);
  trained->save("fine_tune.params");

  const nn::BlockPtr net = nn::models::lenet({.classes = 2});
  const nn::LoadReport report = net->load("fine_tune.params", {.skip_mismatched = true});
  fmt::print("{}\n{}\n", report.summary(), report.str());

  net->freeze("^conv1\\.");                      // stays, in predict mode
  net->set_multipliers("^(conv2|fc1)\\.", 0.1);  // learns, but slowly
  const train::FitResult result = fit(net, shoes_or_not(*clothes.train, 4096), steps);
  fmt::print("accuracy in training {:.4f}, params_sha256 {}\n", result.train_accuracy,
             result.params_sha256);

  const auto features = nn::feature_extractor(net, {"fc1"});  // 128 numbers for an image
  fmt::print("{}\n", (*features)(ones({1, 1, 28, 28})).shape().str());
}
