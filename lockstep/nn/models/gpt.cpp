// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/attention.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn::models {
namespace {

constexpr double kSigma = 0.02;

// The two parts that each block adds start smaller, so that their sum starts as wide as one.
TransformerOptions block_options(const GptOptions& options) {
  const double scale = 1.0 / std::sqrt(2.0 * std::max(options.blocks, 1));
  return {.dropout = options.dropout,
          .attention_dropout = options.attention_dropout,
          .activation = "gelu_tanh",
          .causal = true,
          .weight_init = init::normal(kSigma),
          .residual_init = init::normal(kSigma * scale)};
}

class Gpt final : public Block {
 public:
  explicit Gpt(const GptOptions& options)
      : options_(options),
        token_(add_child("token", table(options.vocabulary, options.width))),
        position_(
            add_child("position", table(options.context, options.width))->parameter("weight")),
        blocks_(add_child("blocks", std::make_shared<Sequential>())),
        ln_(add_child("ln", nn::layer_norm({.channels = options.width}))),
        head_(add_child("head",
                        nn::dense(options.vocabulary, {.inputs = options.width,
                                                       .flatten = false,
                                                       .weight_init = init::normal(kSigma)}))),
        drop_(nn::dropout(options.dropout)) {
    for (int i = 0; i < options.blocks; ++i)
      blocks_->add(transformer_encoder_block(options.width, options.heads, block_options(options)));
  }

  Tensor forward(const Tensor& tokens) override {
    if (tokens.rank() != 2 || tokens.shape(1) > options_.context)
      throw InvalidArgument("gpt: tokens have shape {}, expected [N, T] with T up to {}",
                            tokens.shape().str(), options_.context);
    const Tensor positions = slice_axis(position_.data(), 0, 0, tokens.shape(1));
    const Tensor x = (*drop_)(add((*token_)(tokens), positions));
    return (*head_)((*ln_)((*blocks_)(x)));
  }
  std::string description() const override {
    return fmt::format("Gpt({}, {} heads, {} blocks)", options_.width, options_.heads,
                       options_.blocks);
  }

 private:
  static std::shared_ptr<Embedding> table(std::int64_t rows, std::int64_t width) {
    return nn::embedding(rows, width, {.weight_init = init::normal(kSigma)});
  }

  GptOptions options_;
  std::shared_ptr<Embedding> token_;
  Parameter position_;
  std::shared_ptr<Sequential> blocks_;
  std::shared_ptr<LayerNorm> ln_;
  std::shared_ptr<Dense> head_;
  std::shared_ptr<Dropout> drop_;
};

}  // namespace

BlockPtr gpt(const GptOptions& options) { return std::make_shared<Gpt>(options); }

}  // namespace lockstep::nn::models
