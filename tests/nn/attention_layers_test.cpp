// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/nn/layers/attention.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::expect_close;
using testing::message_of;
using testing::run_both_ways;

constexpr std::int64_t kWidth = 8, kHeads = 2, kSize = kWidth / kHeads;
using Rows = std::vector<std::vector<double>>;

Rows rows_of(const Tensor& matrix) {
  const std::vector<double> values = matrix.to_vector<double>();
  const auto columns = static_cast<std::size_t>(matrix.shape(-1));
  Rows rows(values.size() / columns);
  for (std::size_t i = 0; i < values.size(); ++i) rows[i / columns].push_back(values[i]);
  return rows;
}

Rows project(const Rows& x, const Block& block, const std::string& name) {
  const Rows weight = rows_of(block.parameter(name + ".weight").data());
  const std::vector<double> bias = block.parameter(name + ".bias").data().to_vector<double>();
  Rows y(x.size(), bias);
  for (std::size_t t = 0; t < x.size(); ++t)
    for (std::size_t u = 0; u < bias.size(); ++u)
      for (std::size_t i = 0; i < x[t].size(); ++i) y[t][u] += weight[u][i] * x[t][i];
  return y;
}

// One head's columns [at, at + kSize) of one sample, score by score.
void attend(const Rows& q, const Rows& k, const Rows& v, std::size_t at, bool causal, Rows& y) {
  for (std::size_t i = 0; i < q.size(); ++i) {
    std::vector<double> scores;
    double total = 0.0;
    for (std::size_t j = 0; j < k.size() && (!causal || j <= i); ++j) {
      double score = 0.0;
      for (std::size_t c = at; c < at + kSize; ++c) score += q[i][c] * k[j][c];
      scores.push_back(std::exp(score / std::sqrt(double{kSize})));
      total += scores.back();
    }
    for (std::size_t j = 0; j < scores.size(); ++j)
      for (std::size_t c = at; c < at + kSize; ++c) y[i][c] += scores[j] / total * v[j][c];
  }
}

Tensor joined(const Rows& q, const Rows& k, const Rows& v, bool causal, const Block& block) {
  Rows y(q.size(), std::vector<double>(kWidth, 0.0));
  for (std::size_t head = 0; head < kHeads; ++head) attend(q, k, v, head * kSize, causal, y);
  std::vector<float> flat;
  for (const auto& row : project(y, block, "proj"))
    for (const double value : row) flat.push_back(static_cast<float>(value));
  return Tensor::from(flat, {1, static_cast<std::int64_t>(q.size()), kWidth});
}

Rows columns(const Rows& rows, std::size_t from) {
  Rows part;
  for (const auto& row : rows)
    part.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(from),
                      row.begin() + static_cast<std::ptrdiff_t>(from + kWidth));
  return part;
}

const Initializer kBias = init::uniform(0.5);

TEST(MultiHeadAttention, IsWhatTheFormulaSays) {
  for (const bool causal : {false, true}) {
    const auto layer = multi_head_attention(kWidth, kHeads, {.causal = causal, .bias_init = kBias});
    const Tensor x = drawn({1, 5, kWidth}, 1);
    const Tensor y = run_both_ways(*layer, x);
    const Rows qkv = project(rows_of(x), *layer, "qkv");
    expect_close(
        y, joined(columns(qkv, 0), columns(qkv, kWidth), columns(qkv, 2 * kWidth), causal, *layer),
        1e-5);
  }
}

TEST(MultiHeadAttention, LooksAtAnotherSequence) {
  const auto layer = multi_head_attention(kWidth, kHeads, {.cross = true, .bias_init = kBias});
  const Tensor x = drawn({1, 3, kWidth}, 1), memory = drawn({1, 6, kWidth}, 2);
  const Tensor y = run_both_ways(*layer, {x, memory}).front();
  const Rows m = rows_of(memory);
  expect_close(y,
               joined(project(rows_of(x), *layer, "q"), project(m, *layer, "k"),
                      project(m, *layer, "v"), false, *layer),
               1e-5);
}

TEST(MultiHeadAttention, AMaskHidesPositions) {
  const auto layer = multi_head_attention(kWidth, kHeads, {.bias_init = kBias});
  const Tensor x = drawn({1, 4, kWidth}, 1);
  const Tensor mask = Tensor::from(std::vector<bool>{true, true, true, false}, {1, 1, 1, 4});
  const Tensor y = run_both_ways(*layer, {x, mask}).front();
  const Tensor shorter = (*layer)(slice_axis(x, 1, 0, 3));
  expect_close(slice_axis(y, 1, 0, 3), shorter, 1e-5);
}

TEST(MultiHeadAttention, DropoutKeepsTheMeanAndTheMasks) {
  const auto layer =
      multi_head_attention(kWidth, kHeads, {.causal = true, .dropout = 0.3, .bias_init = kBias});
  layer->initialize();
  const Tensor x = drawn({1, 6, kWidth}, 1), expected = (*layer)(x);
  const RandomScope draws(random_key(5));
  const autograd::ModeScope train(true);
  Tensor total = zeros(expected.shape());
  for (int i = 0; i < 2000; ++i) total = total + (*layer)(x);
  expect_close(total / 2000.0, expected, 0.03);
  // With one position to see, dropping it leaves nothing: zeros, not NaN.
  const Tensor mask = Tensor::from(std::vector<bool>{true, false, false, false, false, false}, {6});
  for (const float y : (*layer)(std::vector<Tensor>{x, mask})[0].to_vector<float>())
    EXPECT_TRUE(std::isfinite(y));
}

TEST(MultiHeadAttention, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { multi_head_attention(8, 3); }),
            "multi_head_attention: width 8 does not divide into 3 heads");
  EXPECT_EQ(message_of([] { multi_head_attention(8, 0); }),
            "multi_head_attention: heads is 0, expected 1 or more");
  const auto layer = multi_head_attention(8, 2);
  layer->initialize();
  EXPECT_EQ(message_of([&] {
              (*layer)(ones({2, 8}));
            }),
            "multi_head_attention: x has shape [2, 8], expected [N, T, 8]");
  EXPECT_EQ(message_of([&] {
              (*layer)(std::vector<Tensor>(3, ones({1, 1, 8})));
            }),
            "multi_head_attention: takes 1 or 2 inputs, got 3");
}

Tensor mlp_of(Block& block, const Tensor& x) {
  const auto get = [&](const char* name) { return block.parameter(name).data(); };
  const Tensor wide =
      lockstep::gelu(lockstep::dense(x, get("mlp.fc1.weight"), get("mlp.fc1.bias"), false));
  return lockstep::dense(wide, get("mlp.fc2.weight"), get("mlp.fc2.bias"), false);
}

Tensor normed(const Tensor& x) { return lockstep::layer_norm(x, ones({kWidth}), zeros({kWidth})); }

TEST(TransformerEncoderBlock, NormsBeforeOrAfter) {
  const Tensor x = drawn({2, 5, kWidth}, 1);
  const auto before = transformer_encoder_block(kWidth, kHeads, {.bias_init = kBias});
  const Tensor got = run_both_ways(*before, x);
  Block& attn = *before->children()[1].block;
  const Tensor y = x + attn(normed(x));
  expect_close(got, y + mlp_of(*before, normed(y)), 1e-5);
  EXPECT_EQ(before->parameter("mlp.fc1.weight").shape(), (Shape{4 * kWidth, kWidth}));
  const auto after = transformer_encoder_block(
      kWidth, kHeads, {.hidden = 6, .pre_norm = false, .bias_init = kBias});
  const Tensor got_after = run_both_ways(*after, x);
  const Tensor z = normed(x + (*after->children()[1].block)(x));
  expect_close(got_after, normed(z + mlp_of(*after, z)), 1e-5);
}

TEST(TransformerEncoderBlock, CausalNeverLooksAhead) {
  const auto block = transformer_encoder_block(kWidth, kHeads, {.causal = true});
  const Tensor x = drawn({1, 5, kWidth}, 1);
  const Tensor y = run_both_ways(*block, x);
  expect_close((*block)(slice_axis(x, 1, 0, 3)), slice_axis(y, 1, 0, 3), 1e-5);
}

TEST(TransformerDecoderBlock, LooksBackAndAtTheMemory) {
  const auto block = transformer_decoder_block(kWidth, kHeads);
  const Tensor x = drawn({2, 4, kWidth}, 1), memory = drawn({2, 6, kWidth}, 2);
  const Tensor y = run_both_ways(*block, {x, memory}).front();
  const Tensor part = (*block)({slice_axis(x, 1, 0, 2), memory}).front();
  expect_close(part, slice_axis(y, 1, 0, 2), 1e-5);
  EXPECT_NE((*block)({x, memory * 2.0}).front().to_vector<float>(), y.to_vector<float>());
  const Tensor mask = Tensor::from(std::vector<bool>{true, true, true, true, true, false}, {6});
  expect_close((*block)({x, memory, mask}).front(),
               (*block)({x, slice_axis(memory, 1, 0, 5)}).front(), 1e-5);
  EXPECT_EQ(message_of([&] { (*block)(x); }),
            "transformer_decoder_block: takes 2 or 3 inputs, got 1");
}

TEST(Transformers, DropOnTheirResidualPartsInTrainMode) {
  const auto block = transformer_encoder_block(kWidth, kHeads, {.dropout = 0.5});
  const Tensor x = drawn({1, 5, kWidth}, 1);
  const Tensor y = run_both_ways(*block, x);
  const RandomScope draws(random_key(1));
  const autograd::ModeScope train(true);
  EXPECT_NE((*block)(x).to_vector<float>(), y.to_vector<float>());
  EXPECT_EQ(message_of([] { transformer_encoder_block(8, 2, {.dropout = 1.0}); }),
            "transformer_encoder_block: dropout is 1, expected 0 <= dropout < 1");
}

}  // namespace
}  // namespace lockstep::nn
