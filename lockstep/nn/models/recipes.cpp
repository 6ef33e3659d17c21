// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/recipes.h"

#include "lockstep/nn/models/layers.h"
#include "lockstep/ops/attention.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/loss.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

using Source = ParameterSource;

Tensor mlp(Source& p, const Tensor& x) {
  return layers::dense(p, "fc2", relu(layers::dense(p, "fc1", x, 128)), 10);
}

// LeNet and the CIFAR CNN: two of convolution, relu, pool; then two dense layers.
Tensor cnn(Source& p, const Tensor& x, std::int64_t width) {
  Tensor y = max_pool(relu(layers::conv(p, "conv1", x, width, 3)), {.kernel = {2}});
  y = max_pool(relu(layers::conv(p, "conv2", y, 2 * width, 3)), {.kernel = {2}});
  return layers::dense(p, "fc2", relu(layers::dense(p, "fc1", y, 128)), 10);
}

Tensor lenet(Source& p, const Tensor& x) { return cnn(p, x, 32); }
Tensor cifar_cnn(Source& p, const Tensor& x) { return cnn(p, x, 64); }

Tensor basic_block(Source& p, const std::string& name, const Tensor& x, std::int64_t width,
                   std::int64_t stride) {
  Tensor y = layers::conv(p, name + ".conv1", x, width, 3, stride, false);
  y = relu(layers::batch_norm(p, name + ".bn1", y));
  y = layers::conv(p, name + ".conv2", y, width, 3, 1, false);
  y = layers::batch_norm(p, name + ".bn2", y);
  if (stride == 1 && x.shape(1) == width) return relu(add(y, x));
  const Tensor shortcut = layers::conv(p, name + ".downsample.0", x, width, 1, stride, false);
  return relu(add(y, layers::batch_norm(p, name + ".downsample.1", shortcut)));
}

// The CIFAR form: a 3x3 stem without max-pool.
Tensor resnet18(Source& p, const Tensor& x) {
  Tensor y = relu(layers::batch_norm(p, "bn1", layers::conv(p, "conv1", x, 64, 3, 1, false)));
  for (int stage = 1; stage <= 4; ++stage) {
    const std::string name = "layer" + std::to_string(stage);
    const std::int64_t width = std::int64_t{32} << stage;
    y = basic_block(p, name + ".0", y, width, stage == 1 ? 1 : 2);
    y = basic_block(p, name + ".1", y, width, 1);
  }
  return layers::dense(p, "fc", global_avg_pool(y), 10);
}

Tensor text_lstm(Source& p, const Tensor& tokens) {
  const Tensor x = layers::embedding(p, "embedding", transpose(tokens), 10000, 128);
  return layers::dense(p, "fc", layers::lstm_last(p, "lstm", x, 256), 2);
}

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kContext = 128;
constexpr std::int64_t kVocabulary = 96;

Tensor self_attention(Source& p, const std::string& name, const Tensor& x) {
  const std::int64_t batch = x.shape(0), length = x.shape(1), size = kWidth / kHeads;
  const Tensor qkv = reshape(layers::dense(p, name + ".qkv", x, 3 * kWidth, false),
                             {batch, length, 3, kHeads, size});
  Tensor parts[3];
  for (int i = 0; i < 3; ++i)
    parts[i] = transpose(squeeze(slice_axis(qkv, 2, i, i + 1), {2}), {0, 2, 1, 3});
  const Tensor y = scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, true);
  const Tensor joined = reshape(transpose(y, {0, 2, 1, 3}), {batch, length, kWidth});
  return layers::dense(p, name + ".proj", joined, kWidth, false);
}

Tensor gpt_block(Source& p, const std::string& name, const Tensor& x) {
  const Tensor y =
      add(x, self_attention(p, name + ".attn", layers::layer_norm(p, name + ".ln1", x)));
  const Tensor normed = layers::layer_norm(p, name + ".ln2", y);
  const Tensor wide = gelu(layers::dense(p, name + ".mlp.fc1", normed, 4 * kWidth, false), true);
  return add(y, layers::dense(p, name + ".mlp.fc2", wide, kWidth, false));
}

Tensor char_gpt(Source& p, const Tensor& tokens) {
  const Tensor embedded = layers::embedding(p, "token", tokens, kVocabulary, kWidth);
  const Tensor positions = p.get("position.weight", {kContext, kWidth}, {0.05, 0.0});
  Tensor x = add(embedded, slice_axis(positions, 0, 0, tokens.shape(1)));
  for (int i = 0; i < 4; ++i) x = gpt_block(p, "blocks." + std::to_string(i), x);
  return layers::dense(p, "head", layers::layer_norm(p, "ln", x), kVocabulary, false);
}

}  // namespace

const std::vector<Recipe>& recipes() {
  constexpr DType f32 = DType::float32;
  constexpr DType i64 = DType::int64;
  static const std::vector<Recipe> all{
      {"mnist-mlp", 128, {784}, f32, 0, {}, 10, mlp},
      {"mnist-lenet", 64, {1, 28, 28}, f32, 0, {}, 10, lenet},
      {"cifar-cnn", 128, {3, 32, 32}, f32, 0, {}, 10, cifar_cnn},
      {"cifar-resnet18", 32, {3, 32, 32}, f32, 0, {}, 10, resnet18},
      {"text-lstm", 32, {100}, i64, 10000, {}, 2, text_lstm},
      {"char-gpt", 8, {kContext}, i64, kVocabulary, {kContext}, kVocabulary, char_gpt}};
  return all;
}

const Recipe& find_recipe(std::string_view name) {
  std::string known;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return recipe;
    known += (known.empty() ? "" : ", ") + std::string(recipe.name);
  }
  throw NotFound("recipe: there is no '{}' (there are: {})", name, known);
}

Tensor recipe_loss(const Recipe& recipe, const Tensor& logits, const Tensor& labels) {
  const Tensor rows = reshape(logits, {-1, recipe.classes});
  return mean(softmax_cross_entropy(rows, reshape(labels, {-1})));
}

}  // namespace lockstep
