// SPDX-License-Identifier: Apache-2.0
// Segmentation: a small U-Net with skip connections tells for each pixel whether it is of a disc.
//
//   unet [STEPS] [THREADS]        lockstep launch --workers 2 -- unet
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"

using namespace lockstep;

nn::BlockPtr convs(std::int64_t channels) {
  return nn::sequential(nn::conv2d(channels, 3, {.padding = 1, .activation = "relu"}),
                        nn::conv2d(channels, 3, {.padding = 1, .activation = "relu"}));
}

// Half the resolution on the way down; on the way up what was there before is joined again.
class Level : public nn::Block {
 public:
  Level(std::int64_t channels, nn::BlockPtr inner)
      : down_(add_child("down", convs(channels))),
        pool_(add_child("pool", nn::max_pool2d(2))),
        inner_(add_child("inner", std::move(inner))),
        grow_(add_child("grow", nn::conv2d_transpose(channels, 2, {.stride = 2}))),
        up_(add_child("up", convs(channels))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor skip = (*down_)(x);
    return (*up_)(concat({skip, (*grow_)((*inner_)((*pool_)(skip)))}, 1));
  }

 private:
  nn::BlockPtr down_, pool_, inner_, grow_, up_;
};

// Noise, and a disc that is a little brighter; the label is a class for each pixel.
data::DatasetPtr discs(std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  const Tensor x = uniform({256, 1, 1}, 4, 12), y = uniform({256, 1, 1}, 4, 12);
  const Tensor i = reshape(arange(0, 16), {1, 16, 1}), j = reshape(arange(0, 16), {1, 1, 16});
  const Tensor disc = greater(12.0 - square(i - y) - square(j - x), 0.0);
  const Tensor image = normal({256, 16, 16}) * 0.5 + cast(disc, DType::float32);
  return std::make_shared<data::ArrayDataset>(
      data::Fields{expand_dims(image, 1), cast(disc, DType::int64)});
}

int main(int argc, char** argv) {
  const train::OwnJob own = train::join_job();
  const nn::BlockPtr net = nn::sequential(
      std::make_shared<Level>(8, std::make_shared<Level>(16, convs(32))), nn::conv2d(2, 1));
  train::TrainerOptions options{.global_batch = 32, .threads = argc > 2 ? std::atoi(argv[2]) : 1};
  options.mode = own.mode.get();
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss({.axis = 1}),
                         optim::adam({.learning_rate = 0.005}), options);
  const train::FitResult result = trainer.fit(
      discs(1), {.steps = argc > 1 ? std::atoll(argv[1]) : 100, .validation = discs(2)});
  if (!own.is_first()) return 0;  // one speaks for all
  fmt::print("pixels told right: {:.4f}\nparams_sha256 {}\n", result.validation.accuracy,
             result.params_sha256);
}
