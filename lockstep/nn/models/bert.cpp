// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/attention.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn::models {
namespace {

constexpr double kSigma = 0.02;

TransformerOptions block_options(const BertOptions& options) {
  const double scale = 1.0 / std::sqrt(2.0 * std::max(options.blocks, 1));
  return {.dropout = options.dropout,
          .attention_dropout = options.dropout,
          .pre_norm = false,
          .weight_init = init::normal(kSigma),
          .residual_init = init::normal(kSigma * scale)};
}

std::shared_ptr<Dense> square_dense(std::int64_t width, const char* activation) {
  return nn::dense(width, {.inputs = width,
                           .activation = activation,
                           .flatten = false,
                           .weight_init = init::normal(kSigma)});
}

// Vectors of tokens, positions and segments, added and normed.
class Embeddings final : public Block {
 public:
  explicit Embeddings(const BertOptions& options)
      : token_(table("token", options.vocabulary, options.width)),
        segment_(table("segment", options.segments, options.width)),
        position_(table("position", options.context, options.width)->parameter("weight")),
        ln_(add_child("ln", nn::layer_norm({.channels = options.width}))),
        drop_(nn::dropout(options.dropout)) {}

  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    const Tensor& tokens = inputs[0];
    const Tensor segments =
        inputs.size() > 1 && inputs[1].defined() ? inputs[1] : zeros_like(tokens);
    const Tensor positions = slice_axis(position_.data(), 0, 0, tokens.shape(1));
    const Tensor sum = add(add((*token_)(tokens), positions), (*segment_)(segments));
    return {(*drop_)((*ln_)(sum))};
  }
  Parameter token_weight() const { return token_->parameter("weight"); }
  std::string description() const override { return "BertEmbeddings"; }

 private:
  std::shared_ptr<Embedding> table(const char* name, std::int64_t rows, std::int64_t width) {
    return add_child(name, nn::embedding(rows, width, {.weight_init = init::normal(kSigma)}));
  }

  std::shared_ptr<Embedding> token_, segment_;
  Parameter position_;
  std::shared_ptr<LayerNorm> ln_;
  std::shared_ptr<Dropout> drop_;
};

// Scores of tokens by the token embedding itself, which it shares.
class MaskedLmHead final : public Block {
 public:
  MaskedLmHead(const BertOptions& options, Parameter token_weight)
      : fc_(add_child("fc", square_dense(options.width, "gelu"))),
        ln_(add_child("ln", nn::layer_norm({.channels = options.width}))),
        weight_(std::move(token_weight)),
        bias_(add_parameter("bias", {options.vocabulary}, {.init = init::zero()})) {}

  Tensor forward(const Tensor& x) override {
    return lockstep::dense((*ln_)((*fc_)(x)), weight_.data(), bias_.data(), false);
  }
  std::string description() const override { return "MaskedLmHead"; }

 private:
  std::shared_ptr<Dense> fc_;
  std::shared_ptr<LayerNorm> ln_;
  Parameter weight_, bias_;
};

class Bert final : public Block {
 public:
  explicit Bert(const BertOptions& options)
      : options_(options),
        embeddings_(add_child("embeddings", std::make_shared<Embeddings>(options))) {
    const auto stack = add_child("blocks", std::make_shared<Sequential>());
    for (int i = 0; i < options.blocks; ++i) {
      blocks_.push_back(
          transformer_encoder_block(options.width, options.heads, block_options(options)));
      stack->add(blocks_.back());
    }
    pooler_ = add_child("pooler", square_dense(options.width, "tanh"));
    if (options.masked_lm)
      head_ =
          add_child("head", std::make_shared<MaskedLmHead>(options, embeddings_->token_weight()));
  }

  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override {
    check(inputs);
    const Tensor mask = inputs.size() > 2 ? mask_of(inputs[2], inputs[0].shape(1)) : Tensor();
    Tensor x = (*embeddings_)({inputs[0], inputs.size() > 1 ? inputs[1] : Tensor()})[0];
    for (const auto& block : blocks_)
      x = mask.defined() ? (*block)(std::vector<Tensor>{x, mask})[0] : (*block)(x);
    const Tensor pooled = (*pooler_)(squeeze(slice_axis(x, 1, 0, 1), {1}));
    if (head_) return {(*head_)(x), x, pooled};
    return {x, pooled};
  }
  std::string description() const override {
    return fmt::format("Bert({}, {} heads, {} blocks)", options_.width, options_.heads,
                       options_.blocks);
  }

 private:
  void check(const std::vector<Tensor>& inputs) const {
    if (inputs.empty() || inputs.size() > 3)
      throw InvalidArgument("bert: takes 1 to 3 inputs, got {}", inputs.size());
    const Tensor& tokens = inputs[0];
    if (tokens.rank() != 2 || tokens.shape(1) < 1 || tokens.shape(1) > options_.context)
      throw InvalidArgument("bert: tokens have shape {}, expected [N, T] with T from 1 to {}",
                            tokens.shape().str(), options_.context);
  }

  // [N, 1, 1, T]: nobody looks behind the end.
  static Tensor mask_of(const Tensor& lengths, std::int64_t steps) {
    const Tensor position =
        arange(0.0, static_cast<double>(steps), 1.0, DType::int64, lengths.device());
    const Tensor real = less(expand_dims(position, 0), expand_dims(lengths, 1));
    return expand_dims(expand_dims(real, 1), 1);
  }

  BertOptions options_;
  std::shared_ptr<Embeddings> embeddings_;
  std::vector<std::shared_ptr<TransformerEncoderBlock>> blocks_;
  std::shared_ptr<Dense> pooler_;
  std::shared_ptr<MaskedLmHead> head_;
};

}  // namespace

BlockPtr bert(const BertOptions& options) { return std::make_shared<Bert>(options); }

}  // namespace lockstep::nn::models
