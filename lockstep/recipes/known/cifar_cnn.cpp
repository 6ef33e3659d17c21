// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

nn::BlockPtr cnn(double dropout, std::int64_t classes) {
  return nn::models::cifar_cnn({.width = 64, .classes = classes, .dropout = dropout});
}

}  // namespace

Recipe cifar_cnn() {
  return {.name = "cifar-cnn",
          .summary = "photos of ten kinds in 32x32 pixels, two convolutions",
          .dataset = "cifar10",
          .files = cifar_files(),
          .sample_shape = {3, 32, 32},
          .classes = 10,
          .epochs = 10,
          .bench_batch = 128,
          .learning = momentum(0.1, 5e-4, 0.05),
          .model = cnn,
          .train_transform = moved_photos,
          .test_transform = photos};
}

}  // namespace lockstep::recipes
