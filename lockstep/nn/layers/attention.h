// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/norm.h"

namespace lockstep::nn {

struct AttentionOptions {
  bool causal = false;   // position i sees positions up to i
  bool cross = false;    // keys and values come from another sequence
  double dropout = 0.0;  // on the attention's weights, in train mode
  bool bias = true;
  Initializer weight_init = {};
  Initializer bias_init = init::zero();
  Initializer projection_init = {};  // of the last projection's weight; none: weight_init
};

// Attention over [N, T, width] in `heads` heads. Self-attention: x, {x} or {x, mask}; one fused
// projection "qkv". With `cross`: {x, memory} or {x, memory, mask}; projections "q", "k", "v". Then
// "proj". A mask is bool (false: never look there) or a float added to the scores, and broadcasts
// to [N, heads, T, S].
class MultiHeadAttention : public Block {
 public:
  MultiHeadAttention(std::int64_t width, std::int64_t heads, const AttentionOptions& options = {});
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  std::string description() const override;
  std::int64_t heads() const { return heads_; }

 private:
  std::vector<Tensor> project_self(const Tensor& x) const;
  std::vector<Tensor> project_cross(const Tensor& x, const Tensor& memory) const;
  Tensor attend(const std::vector<Tensor>& qkv, const Tensor& mask) const;

  std::int64_t width_, heads_;
  AttentionOptions options_;
  std::shared_ptr<Dense> qkv_, q_, k_, v_, proj_;
};

struct TransformerOptions {
  std::int64_t hidden = 0;  // of the feed-forward part; 0: 4 width
  double dropout = 0.0;     // on what each part adds
  double attention_dropout = 0.0;
  std::string activation = "gelu";
  bool pre_norm = true;  // norm before each part; false: after its sum
  bool causal = false;   // of the encoder block; a decoder block always is
  Initializer weight_init = {};
  Initializer bias_init = init::zero();
  // Of the weights whose result is added to what came in; none: weight_init.
  Initializer residual_init = {};
};

// dense "fc1", activation, dense "fc2", on the last axis.
class FeedForward : public Block {
 public:
  FeedForward(std::int64_t width, const TransformerOptions& options);
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "FeedForward"; }

 private:
  std::shared_ptr<Dense> fc1_, fc2_;
};

// Self-attention "attn" and feed-forward "mlp", each with a sum around it and a norm: "ln1", "ln2".
// Takes x, {x} or {x, mask}. With `causal`, the block of a GPT.
class TransformerEncoderBlock : public Block {
 public:
  TransformerEncoderBlock(std::int64_t width, std::int64_t heads,
                          const TransformerOptions& options = {});
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  std::string description() const override { return "TransformerEncoderBlock"; }

 private:
  bool pre_norm_;
  double dropout_;
  std::shared_ptr<LayerNorm> ln1_, ln2_;
  std::shared_ptr<MultiHeadAttention> attn_;
  std::shared_ptr<FeedForward> mlp_;
};

// Causal self-attention "attn", attention "cross" to the encoder's output, "mlp"; "ln1" to "ln3".
// Takes {x, memory} or {x, memory, memory_mask}.
class TransformerDecoderBlock : public Block {
 public:
  TransformerDecoderBlock(std::int64_t width, std::int64_t heads,
                          const TransformerOptions& options = {});
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  std::string description() const override { return "TransformerDecoderBlock"; }

 private:
  bool pre_norm_;
  double dropout_;
  std::shared_ptr<LayerNorm> ln1_, ln2_, ln3_;
  std::shared_ptr<MultiHeadAttention> attn_, cross_;
  std::shared_ptr<FeedForward> mlp_;
};

std::shared_ptr<MultiHeadAttention> multi_head_attention(std::int64_t width, std::int64_t heads,
                                                         const AttentionOptions& options = {});
std::shared_ptr<TransformerEncoderBlock> transformer_encoder_block(
    std::int64_t width, std::int64_t heads, const TransformerOptions& options = {});
std::shared_ptr<TransformerDecoderBlock> transformer_decoder_block(
    std::int64_t width, std::int64_t heads, const TransformerOptions& options = {});

}  // namespace lockstep::nn
