// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

nn::BlockPtr resnet18(double, std::int64_t classes) { return nn::models::cifar_resnet18(classes); }

}  // namespace

Recipe cifar_resnet18() {
  return {.name = "cifar-resnet18",
          .summary = "the same photos, a residual net of 18 layers",
          .dataset = "cifar10",
          .files = cifar_files(),
          .sample_shape = {3, 32, 32},
          .classes = 10,
          .has_batch_norm = true,
          .epochs = 30,
          .bench_batch = 32,
          .learning = momentum(0.1, 5e-4, 0.05),
          .model = resnet18,
          .train_transform = moved_photos,
          .test_transform = photos};
}

}  // namespace lockstep::recipes
