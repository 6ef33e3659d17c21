// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/standard_sets.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

data::Transform moved_digits() { return data::compose({data::random_crop(28, 28, 2), digits()}); }

}  // namespace

Recipe mnist_lenet() {
  return {.name = "mnist-lenet",
          .summary = "handwritten digits, two convolutions",
          .dataset = "mnist",
          .files = idx_files(data::mnist),
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .epochs = 5,
          .bench_batch = 64,
          .learning = momentum(0.05, 1e-4, 0.02),
          .model = lenet,
          .train_transform = moved_digits,
          .test_transform = digits};
}

}  // namespace lockstep::recipes
