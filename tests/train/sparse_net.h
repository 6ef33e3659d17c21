// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::testing {

inline constexpr std::int64_t kRows = 40, kWidth = 5, kLabels = 3, kPadding = 7;

// Two towers that look up the same table: ids [B, 2 K], half of them each.
class TwoTowers final : public nn::Block {
 public:
  explicit TwoTowers(const nn::EmbeddingOptions& options)
      : words_(add_child("words", nn::embedding(kRows, kWidth, options))),
        head_(add_child("head", nn::dense(kLabels, {.inputs = 2 * kWidth}))) {}
  Tensor forward(const Tensor& ids) override {
    const std::int64_t half = ids.shape(1) / 2;
    const Tensor left = mean((*words_)(slice_axis(ids, 1, 0, half)), {1});
    const Tensor right = mean((*words_)(slice_axis(ids, 1, half, 2 * half)), {1});
    return (*head_)(concat({left, right}, 1));
  }

 private:
  nn::BlockPtr words_, head_;
};

inline nn::BlockPtr two_towers(const nn::EmbeddingOptions& options) {
  const auto net = std::make_shared<TwoTowers>(options);
  net->initialize(nn::init::uniform(0.5), 3);
  return net;
}

inline constexpr std::int64_t kLookupShards = 6, kBatchOfShard = 3;

// Many ids repeat, within a shard and between shards; most rows have no part in a step.
inline data::Fields lookup_batch(std::int64_t step, std::int64_t shard, std::int64_t length = 4) {
  const RandomScope draws(
      random_key(5, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
  const std::int64_t first = (step * 5) % (kRows - 8);
  return {randint(first, first + 8, {kBatchOfShard, length}), randint(0, kLabels, {kBatchOfShard})};
}

// Of the engine's own shards.
inline std::vector<data::Fields> lookups(const train::StepEngine& engine, std::int64_t step,
                                         std::int64_t length = 4) {
  std::vector<data::Fields> shards;
  for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
    shards.push_back(lookup_batch(step, s, length));
  return shards;
}

inline train::StepEngine lookup_engine(const nn::BlockPtr& net, const optim::OptimizerPtr& rule,
                                       int threads = 1, kvstore::Mode* mode = nullptr) {
  train::EngineOptions options{.shards = kLookupShards, .threads = threads, .seed = 3};
  options.mode = mode;
  const auto loss = [](const Tensor& output, const Tensor& label) {
    return softmax_cross_entropy(output, label);
  };
  return {net, loss, rule, data::infos_of(lookup_batch(0, 0)), options};
}

}  // namespace lockstep::testing
