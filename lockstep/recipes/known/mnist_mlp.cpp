// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/standard_sets.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

nn::BlockPtr mlp(double dropout, std::int64_t classes) {
  return nn::models::mlp({.classes = classes, .dropout = dropout});
}

}  // namespace

Recipe mnist_mlp() {
  return {.name = "mnist-mlp",
          .summary = "handwritten digits, two dense layers",
          .dataset = "mnist",
          .files = idx_files(data::mnist),
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .epochs = 10,
          .bench_batch = 128,
          .learning = momentum(0.05, 1e-4, 0.02),
          .model = mlp,
          .train_transform = digits,
          .test_transform = digits};
}

}  // namespace lockstep::recipes
