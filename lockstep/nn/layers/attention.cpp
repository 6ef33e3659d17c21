// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/attention.h"

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/attention.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"

namespace lockstep::nn {
namespace {

constexpr const char* kName = "multi_head_attention";

// [N, T, width] as [N, heads, T, width / heads].
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  const Tensor split = reshape(x, {x.shape(0), x.shape(1), heads, x.shape(2) / heads});
  return transpose(split, {0, 2, 1, 3});
}

Tensor masked(const Tensor& scores, const Tensor& mask) {
  if (!mask.defined()) return scores;
  if (mask.dtype() != DType::boolean) return add(scores, mask);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return where(mask, scores, full({}, kNever, scores.dtype(), scores.device()));
}

// [T, S]: row i sees columns 0..i + S - T.
Tensor causal_mask(const Tensor& q, const Tensor& k) {
  const std::int64_t rows = q.shape(2), columns = k.shape(2);
  const auto range = [&](std::int64_t begin, std::int64_t count) {
    return arange(static_cast<double>(begin), static_cast<double>(begin + count), 1.0,
                  DType::float32, q.device());
  };
  return less_equal(range(0, columns), expand_dims(range(columns - rows, rows), 1));
}

// With the weights at hand, so that some of them can be dropped.
Tensor attention_with_dropout(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                              bool causal, double p) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.shape(3)));
  Tensor scores = masked(matmul(q, k, false, true) * scale, mask);
  if (causal) scores = masked(scores, causal_mask(q, k));
  return matmul(nn::dropout(softmax(scores), p), v);
}

void check_width(const Tensor& x, const char* what, std::int64_t width) {
  if (x.rank() != 3 || x.shape(2) != width)
    throw InvalidArgument("{}: {} has shape {}, expected [N, T, {}]", kName, what, x.shape().str(),
                          width);
}

// norm, part and sum, in the order that the option says.
template <class F>
Tensor residual(const Tensor& x, LayerNorm& norm, bool pre_norm, double p, F&& part) {
  const Tensor y = part(pre_norm ? norm(x) : x);
  const Tensor sum = add(x, p > 0.0 ? nn::dropout(y, p) : y);
  return pre_norm ? sum : norm(sum);
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t width, std::int64_t heads,
                                       const AttentionOptions& options)
    : width_(detail::positive(kName, "width", width)),
      heads_(detail::positive(kName, "heads", heads)),
      options_(options) {
  detail::probability(kName, "dropout", options.dropout);
  if (width % heads != 0)
    throw InvalidArgument("{}: width {} does not divide into {} heads", kName, width, heads);
  const auto initialized = [&](const char* name, std::int64_t units, const Initializer& init) {
    return add_child(name, nn::dense(units, {.inputs = width,
                                             .bias = options.bias,
                                             .flatten = false,
                                             .weight_init = init,
                                             .bias_init = options.bias_init}));
  };
  const auto projection = [&](const char* name, std::int64_t units) {
    return initialized(name, units, options.weight_init);
  };
  if (options.cross) {
    q_ = projection("q", width);
    k_ = projection("k", width);
    v_ = projection("v", width);
  } else {
    qkv_ = projection("qkv", 3 * width);
  }
  proj_ = initialized("proj", width,
                      options.projection_init ? options.projection_init : options.weight_init);
}

std::vector<Tensor> MultiHeadAttention::project_self(const Tensor& x) const {
  const Tensor qkv = reshape((*qkv_)(x), {x.shape(0), x.shape(1), 3, heads_, width_ / heads_});
  std::vector<Tensor> parts;
  for (int i = 0; i < 3; ++i)
    parts.push_back(transpose(squeeze(slice_axis(qkv, 2, i, i + 1), {2}), {0, 2, 1, 3}));
  return parts;
}

std::vector<Tensor> MultiHeadAttention::project_cross(const Tensor& x, const Tensor& memory) const {
  return {split_heads((*q_)(x), heads_), split_heads((*k_)(memory), heads_),
          split_heads((*v_)(memory), heads_)};
}

Tensor MultiHeadAttention::attend(const std::vector<Tensor>& qkv, const Tensor& mask) const {
  if (options_.dropout > 0.0 && autograd::is_training())
    return attention_with_dropout(qkv[0], qkv[1], qkv[2], mask, options_.causal, options_.dropout);
  return scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], mask, options_.causal);
}

std::vector<Tensor> MultiHeadAttention::forward_all(const std::vector<Tensor>& inputs) {
  const std::size_t sequences = options_.cross ? 2 : 1;
  if (inputs.size() != sequences && inputs.size() != sequences + 1)
    throw InvalidArgument("{}: takes {} or {} inputs, got {}", kName, sequences, sequences + 1,
                          inputs.size());
  const Tensor& x = inputs[0];
  check_width(x, "x", width_);
  if (options_.cross) check_width(inputs[1], "memory", width_);
  const Tensor mask = inputs.size() > sequences ? inputs.back() : Tensor();
  const Tensor y = attend(options_.cross ? project_cross(x, inputs[1]) : project_self(x), mask);
  return {(*proj_)(reshape(transpose(y, {0, 2, 1, 3}), {x.shape(0), x.shape(1), width_}))};
}

std::string MultiHeadAttention::description() const {
  return fmt::format("MultiHeadAttention({}, {} heads{}{})", width_, heads_,
                     options_.causal ? ", causal" : "", options_.cross ? ", cross" : "");
}

FeedForward::FeedForward(std::int64_t width, const TransformerOptions& options) {
  DenseOptions wide{.inputs = width,
                    .activation = options.activation,
                    .flatten = false,
                    .weight_init = options.weight_init,
                    .bias_init = options.bias_init};
  DenseOptions narrow = wide;
  narrow.inputs = options.hidden > 0 ? options.hidden : 4 * width;
  narrow.activation = "";
  if (options.residual_init) narrow.weight_init = options.residual_init;
  fc1_ = add_child("fc1", nn::dense(narrow.inputs, std::move(wide)));
  fc2_ = add_child("fc2", nn::dense(width, std::move(narrow)));
}

Tensor FeedForward::forward(const Tensor& x) { return (*fc2_)((*fc1_)(x)); }

namespace {

std::shared_ptr<MultiHeadAttention> attention_of(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options, bool causal,
                                                 bool cross) {
  return multi_head_attention(width, heads,
                              {.causal = causal,
                               .cross = cross,
                               .dropout = options.attention_dropout,
                               .weight_init = options.weight_init,
                               .bias_init = options.bias_init,
                               .projection_init = options.residual_init});
}

}  // namespace

TransformerEncoderBlock::TransformerEncoderBlock(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options)
    : pre_norm_(options.pre_norm),
      dropout_(detail::probability("transformer_encoder_block", "dropout", options.dropout)) {
  ln1_ = add_child("ln1", layer_norm({.channels = width}));
  attn_ = add_child("attn", attention_of(width, heads, options, options.causal, false));
  ln2_ = add_child("ln2", layer_norm({.channels = width}));
  mlp_ = add_child("mlp", std::make_shared<FeedForward>(width, options));
}

std::vector<Tensor> TransformerEncoderBlock::forward_all(const std::vector<Tensor>& inputs) {
  if (inputs.empty() || inputs.size() > 2)
    throw InvalidArgument("transformer_encoder_block: takes 1 or 2 inputs, got {}", inputs.size());
  const Tensor y = residual(inputs[0], *ln1_, pre_norm_, dropout_, [&](const Tensor& x) {
    std::vector<Tensor> arguments{x};
    if (inputs.size() == 2) arguments.push_back(inputs[1]);
    return (*attn_)(arguments)[0];
  });
  return {residual(y, *ln2_, pre_norm_, dropout_, [&](const Tensor& x) { return (*mlp_)(x); })};
}

TransformerDecoderBlock::TransformerDecoderBlock(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options)
    : pre_norm_(options.pre_norm),
      dropout_(detail::probability("transformer_decoder_block", "dropout", options.dropout)) {
  const auto norm = [&](const char* name) {
    return add_child(name, layer_norm({.channels = width}));
  };
  ln1_ = norm("ln1");
  attn_ = add_child("attn", attention_of(width, heads, options, true, false));
  ln2_ = norm("ln2");
  cross_ = add_child("cross", attention_of(width, heads, options, false, true));
  ln3_ = norm("ln3");
  mlp_ = add_child("mlp", std::make_shared<FeedForward>(width, options));
}

std::vector<Tensor> TransformerDecoderBlock::forward_all(const std::vector<Tensor>& inputs) {
  if (inputs.size() != 2 && inputs.size() != 3)
    throw InvalidArgument("transformer_decoder_block: takes 2 or 3 inputs, got {}", inputs.size());
  Tensor y =
      residual(inputs[0], *ln1_, pre_norm_, dropout_, [&](const Tensor& x) { return (*attn_)(x); });
  y = residual(y, *ln2_, pre_norm_, dropout_, [&](const Tensor& x) {
    std::vector<Tensor> arguments{x, inputs[1]};
    if (inputs.size() == 3) arguments.push_back(inputs[2]);
    return (*cross_)(arguments)[0];
  });
  return {residual(y, *ln3_, pre_norm_, dropout_, [&](const Tensor& x) { return (*mlp_)(x); })};
}

std::shared_ptr<MultiHeadAttention> multi_head_attention(std::int64_t width, std::int64_t heads,
                                                         const AttentionOptions& options) {
  return std::make_shared<MultiHeadAttention>(width, heads, options);
}
std::shared_ptr<TransformerEncoderBlock> transformer_encoder_block(
    std::int64_t width, std::int64_t heads, const TransformerOptions& options) {
  return std::make_shared<TransformerEncoderBlock>(width, heads, options);
}
std::shared_ptr<TransformerDecoderBlock> transformer_decoder_block(
    std::int64_t width, std::int64_t heads, const TransformerOptions& options) {
  return std::make_shared<TransformerDecoderBlock>(width, heads, options);
}

}  // namespace lockstep::nn
