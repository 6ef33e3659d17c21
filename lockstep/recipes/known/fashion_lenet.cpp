// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/standard_sets.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

data::Transform clothes() { return data::to_tensor({0.2860F}, {0.3530F}); }

data::Transform moved_clothes() {
  return data::compose({data::random_crop(28, 28, 1), data::random_flip_left_right(), clothes()});
}

}  // namespace

Recipe fashion_lenet() {
  return {.name = "fashion-lenet",
          .summary = "clothes in 28x28 pixels, two convolutions",
          .dataset = "fashion-mnist",
          .files = idx_files(data::fashion_mnist),
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .epochs = 8,
          .bench_batch = 64,
          .learning = momentum(0.05, 2e-4, 0.02),
          .model = lenet,
          .train_transform = moved_clothes,
          .test_transform = clothes};
}

}  // namespace lockstep::recipes
