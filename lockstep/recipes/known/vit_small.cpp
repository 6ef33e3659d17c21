// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"
#include "lockstep/recipes/detail/images.h"

namespace lockstep::recipes {
namespace {

constexpr std::int64_t kHead = 32;

nn::BlockPtr vit(const NetSize& size, double dropout, std::int64_t classes) {
  return nn::models::vit({.image = 32,
                          .patch = 4,
                          .width = size.width,
                          .heads = size.width / kHead,
                          .blocks = static_cast<int>(size.blocks),
                          .classes = classes,
                          .dropout = dropout});
}

}  // namespace

Recipe vit_small() {
  return {.name = "vit-small",
          .summary = "the same photos in patches of 4x4, a transformer of 6 blocks",
          .dataset = "cifar10",
          .files = cifar_files(),
          .sample_shape = {3, 32, 32},
          .classes = 10,
          .epochs = 30,
          .bench_batch = 32,
          .learning = {.optimizer = "adamw",
                       .learning_rate = 1e-3,
                       .parameters = {{"wd", 0.05}, {"clip_norm", 1.0}},
                       .warm_up = 0.05},
          .sized_model = vit,
          .size = {.width = 192, .blocks = 6},
          .head_width = kHead,
          .dropout = 0.1,
          .train_transform = photos_moved_on_grey,
          .test_transform = photos};
}

}  // namespace lockstep::recipes
