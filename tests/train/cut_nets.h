// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

#include "lockstep/nn/functional.h"
#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::testing {

// A chain of blocks "0", "1", ..., drawn from a seed, in which some read what an earlier one gave
// beside what the one before did, and some have the weights of an earlier one: whatever is cut,
// several values cross it. Its head reads all that was kept.
class RandomChain final : public nn::Block {
 public:
  explicit RandomChain(std::uint64_t seed, int blocks = 7) {
    std::mt19937_64 draw(seed);
    for (int i = 0; i < blocks; ++i) {
      Layer layer{.kind = static_cast<int>(draw() % 5), .skip = -1};
      if (i > 1 && draw() % 2 == 0)
        layer.skip = static_cast<int>(draw() % static_cast<unsigned>(i));
      layer.block = block_of(layer.kind);
      if (i > 1 && draw() % 3 == 0) tie(layer);
      add_child(std::to_string(i), layer.block);
      layers_.push_back(std::move(layer));
    }
    head_ = add_child("head", nn::dense(kClasses, {.inputs = kWidth}));
  }

  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> outputs;
    Tensor y = x;
    for (const Layer& layer : layers_) {
      if (layer.skip >= 0) y = y + outputs[static_cast<std::size_t>(layer.skip)];
      y = (*layer.block)(y);
      outputs.push_back(y);
    }
    return (*head_)(y);
  }

  static constexpr std::int64_t kWidth = 24, kClasses = 5;

 private:
  struct Layer {
    int kind;
    int skip;
    nn::BlockPtr block = nullptr;
  };
  static nn::BlockPtr block_of(int kind) {
    const auto dense = [] { return nn::dense(kWidth, {.inputs = kWidth, .activation = "relu"}); };
    switch (kind) {
      case 0: return nn::sequential(dense(), nn::dropout(0.25));
      case 1: return nn::sequential(nn::layer_norm({.channels = kWidth}), dense());
      case 2: return nn::sequential(dense(), nn::batch_norm({.channels = kWidth}));
      default: return nn::sequential(dense());
    }
  }
  void tie(Layer& layer) {
    for (const Layer& other : layers_)
      if (other.kind == layer.kind) return layer.block->share_parameters(*other.block);
  }

  std::vector<Layer> layers_;
  nn::BlockPtr head_;
};

inline constexpr std::int64_t kCutBatch = 4;

inline std::vector<TensorInfo> cut_fields() {
  return {{{kCutBatch, RandomChain::kWidth}, DType::float32, {}}, {{kCutBatch}, DType::int64, {}}};
}

inline data::Fields cut_batch(std::int64_t step, std::int64_t shard) {
  const RandomScope draws(
      random_key(5, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
  return {normal({kCutBatch, RandomChain::kWidth}), randint(0, RandomChain::kClasses, {kCutBatch})};
}

// Of the engine's own shards.
inline std::vector<data::Fields> cut_batches(const train::StepEngine& engine, std::int64_t step) {
  std::vector<data::Fields> batches;
  for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
    batches.push_back(cut_batch(step, s));
  return batches;
}

// The losses of so many steps.
inline std::vector<double> run_cut_steps(train::StepEngine& engine, std::int64_t steps) {
  std::vector<double> losses;
  for (std::int64_t step = 0; step < steps; ++step)
    losses.push_back(engine.run(step, 0.01, cut_batches(engine, step)).loss);
  return losses;
}

}  // namespace lockstep::testing
