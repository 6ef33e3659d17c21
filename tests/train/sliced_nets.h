// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"

namespace lockstep::testing {

inline constexpr std::int64_t kWordsBatch = 2, kTime = 6, kVocabulary = 11;

// A language model whose head is its table, and one whose head is not.
class TinyGpt final : public nn::Block {
 public:
  TinyGpt(bool tied, double dropout, std::int64_t heads = 4)
      : token_(add_child("token", nn::embedding(kVocabulary, kWidth))),
        block_(add_child("block",
                         nn::transformer_encoder_block(
                             kWidth, heads,
                             {.dropout = dropout, .attention_dropout = dropout, .causal = true}))),
        ln_(add_child("ln", nn::layer_norm({.channels = kWidth}))) {
    head_ = add_child("head", nn::dense(kVocabulary, {.inputs = kWidth, .flatten = false}));
    if (tied) head_->parameter("weight").share(token_->parameter("weight"));
  }
  Tensor forward(const Tensor& ids) override { return (*head_)((*ln_)((*block_)((*token_)(ids)))); }
  static constexpr std::int64_t kWidth = 16;

 private:
  std::shared_ptr<nn::Embedding> token_;
  std::shared_ptr<nn::TransformerEncoderBlock> block_;
  std::shared_ptr<nn::LayerNorm> ln_;
  std::shared_ptr<nn::Dense> head_;
};

// What an engine trains: a net, and a batch for each step and shard.
struct SliceTask {
  std::function<nn::BlockPtr()> net;
  std::vector<TensorInfo> fields;
  std::function<data::Fields(std::int64_t step, std::int64_t shard)> batch;
};

inline RandomScope draws_of(std::int64_t step, std::int64_t shard) {
  return RandomScope(
      random_key(5, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
}

inline SliceTask words_task(bool tied, double dropout = 0.0) {
  const TensorInfo words{{kWordsBatch, kTime}, DType::int64, {}};
  return {[=] { return std::make_shared<TinyGpt>(tied, dropout); },
          {words, words},
          [](std::int64_t step, std::int64_t shard) -> data::Fields {
            const RandomScope draws = draws_of(step, shard);
            return {randint(0, kVocabulary, {kWordsBatch, kTime}),
                    randint(0, kVocabulary, {kWordsBatch, kTime})};
          }};
}

inline SliceTask images_task(std::function<nn::BlockPtr()> net) {
  return {std::move(net),
          {{{4, 3, 8, 8}, DType::float32, {}}, {{4}, DType::int64, {}}},
          [](std::int64_t step, std::int64_t shard) -> data::Fields {
            const RandomScope draws = draws_of(step, shard);
            return {normal({4, 3, 8, 8}), randint(0, 5, {4})};
          }};
}

inline nn::BlockPtr small_cnn() {
  return nn::sequential(nn::conv2d(8, {3, 3}, {.padding = 1}), nn::batch_norm(), nn::relu(),
                        nn::conv2d(6, {3, 3}, {.padding = 1}), nn::batch_norm(), nn::relu(),
                        nn::max_pool2d({2, 2}), nn::conv2d(8, {3, 3}), nn::relu(), nn::flatten(),
                        nn::dense(12, {.activation = "relu"}), nn::dropout(0.2), nn::dense(5));
}

}  // namespace lockstep::testing
