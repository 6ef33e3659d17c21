// SPDX-License-Identifier: Apache-2.0
// Photos of ten kinds: a block of one's own, augmentation, checkpoints that a second start goes on
// from, and the best model in a file.
//
//   cifar_cnn [FOLDER|synthetic] [STEPS]        cifar_cnn $(lockstep data get cifar10)
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/unary.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

using namespace lockstep;

namespace {

// Convolution, batch norm, relu, pool. Children and their parameters get the names given here.
class Stage final : public nn::Block {
 public:
  explicit Stage(std::int64_t channels)
      : conv_(add_child("conv", nn::conv2d(channels, 3, {.padding = 1, .bias = false}))),
        norm_(add_child("norm", nn::batch_norm())),
        pool_(add_child("pool", nn::max_pool2d(2))) {}

  Tensor forward(const Tensor& x) override { return (*pool_)(relu((*norm_)((*conv_)(x)))); }

 private:
  nn::BlockPtr conv_, norm_, pool_;
};

}  // namespace

int main(int argc, char** argv) {
  const recipes::RecipeData photos = recipes::open_data(
      recipes::find_recipe("cifar-cnn"), {.place = argc > 1 ? argv[1] : "synthetic"});
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 4000;

  const nn::BlockPtr net = nn::sequential(
      std::make_shared<Stage>(32), std::make_shared<Stage>(64), std::make_shared<Stage>(128),
      nn::flatten(), nn::dropout(0.3), nn::dense(128, {.activation = "relu"}), nn::dense(10));
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss({.smoothing = 0.05}),
                         optim::adamw({.weight_decay = 0.05}),
                         {.global_batch = 128, .shards = 8, .threads = 2, .seed = 1});

  const data::Transform pixels =
      data::to_tensor({0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F});
  const train::FitResult result = trainer.fit(
      photos.train, {.steps = steps,
                     .transform = data::compose(
                         {data::random_crop(32, 32, 4), data::random_flip_left_right(), pixels}),
                     .schedule = optim::cosine(2e-3, steps, 0.0, {.steps = steps / 20}),
                     .callbacks = {train::show_progress(),
                                   train::best_model("cifar_cnn.params", {.metric = "accuracy"})},
                     .validation = photos.test,
                     .validation_transform = pixels,
                     .checkpoints = "cifar_cnn.checkpoints",
                     .resume = true});  // the same bits as if it had never stopped

  fmt::print("accuracy on photos it has not seen: {:.4f}\n", result.validation.accuracy);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}
