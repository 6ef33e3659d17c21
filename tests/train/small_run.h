// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"

namespace lockstep::testing {

inline constexpr std::int64_t kClasses = 4;

// Images of noise with a bright row that tells the class.
inline data::DatasetPtr small_images(std::int64_t count, std::uint64_t seed = 5) {
  const RandomScope draws(random_key(seed, 0, 0));
  const Tensor images = uniform({count, 8, 8, 1}, 0.0, 100.0);
  Tensor labels = Tensor::zeros({count}, DType::int64);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = (i * 7 + i / 3) % kClasses;
    labels.data<std::int64_t>()[i] = label;
    for (std::int64_t x = 0; x < 8; ++x)
      images.data<float>()[i * 64 + (2 * label + i % 2) * 8 + x] += 100.0f;
  }
  return std::make_shared<data::ArrayDataset>(data::Fields{images, labels});
}

// With batch norm and dropout: running statistics and draws are part of what must be the same.
inline nn::BlockPtr small_net() {
  return nn::sequential(nn::conv2d(6, {3, 3}, {.padding = {1, 1}}), nn::batch_norm(), nn::relu(),
                        nn::dropout(0.2), nn::dense(kClasses));
}

inline data::Transform augmentation() {
  return data::compose(
      {data::random_crop(8, 8, 1), data::random_flip_left_right(), data::to_tensor()});
}

inline train::LossFunction cross_entropy() { return nn::SoftmaxCrossEntropyLoss(); }

inline train::Trainer small_trainer(nn::BlockPtr net, int threads = 1, double rate = 0.05) {
  return {std::move(net),
          cross_entropy(),
          optim::sgd({.learning_rate = rate, .momentum = 0.9}),
          {.global_batch = 24, .shards = 8, .threads = threads, .seed = 3}};
}

// Without the one that shards of 3 samples are few for a batch norm.
inline std::vector<std::string> other_warnings(const train::FitResult& result) {
  std::vector<std::string> warnings = result.warnings;
  std::erase_if(warnings, [](const std::string& line) { return line.starts_with("batch norm"); });
  return warnings;
}

// 100 samples, 4 steps an epoch.
inline train::FitOptions small_fit(std::int64_t epochs = 3) {
  train::FitOptions options;
  options.epochs = epochs;
  options.transform = augmentation();
  options.validation = small_images(41, 6);
  options.validation_transform = data::to_tensor();
  options.validation_batch = 8;
  return options;
}

inline train::FitResult run_small(const train::FitOptions& options, int threads = 1) {
  return small_trainer(small_net(), threads).fit(small_images(100), options);
}

inline data::DatasetPtr set_of(data::Fields fields) {
  return std::make_shared<data::ArrayDataset>(std::move(fields));
}

}  // namespace lockstep::testing
