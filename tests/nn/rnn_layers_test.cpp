// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/layers/rnn.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::expect_all_close;
using testing::expect_close;
using testing::message_of;
using testing::run_both_ways;

RnnWeights weights(const Block& block, const std::string& prefix) {
  const auto get = [&](const char* name) { return block.parameter(prefix + name).data(); };
  return {get("i2h_weight"), get("h2h_weight"), get("i2h_bias"), get("h2h_bias")};
}

const RnnLayerOptions kWithBiases{.i2h_bias_init = init::uniform(0.5),
                                  .h2h_bias_init = init::uniform(0.5)};

void expect_is_op(Recurrent& layer, const std::string& mode) {
  SCOPED_TRACE(mode);
  const Tensor x = drawn({5, 2, 3}, 1);
  const std::vector<Tensor> got = run_both_ways(layer, std::vector<Tensor>{x});
  const RnnResult expected = lockstep::rnn(x, {weights(layer, "l0_")}, {.mode = mode});
  std::vector<Tensor> all{expected.y, expected.hidden};
  if (mode == "lstm") all.push_back(expected.cell);
  expect_all_close(got, all, 1e-5, mode);
  expect_close(layer(x), expected.y, 1e-5);
}

TEST(Recurrent, IsTheOpInEveryMode) {
  expect_is_op(*lstm(4, kWithBiases), "lstm");
  expect_is_op(*gru(4, kWithBiases), "gru");
  expect_is_op(*nn::rnn(4, kWithBiases), "rnn_tanh");
  expect_is_op(*nn::rnn(4, {.activation = "relu"}), "rnn_relu");
}

TEST(Recurrent, HasSeveralLayersInBothDirections) {
  const auto layer = lstm(4, {.layers = 2, .bidirectional = true});
  const Tensor x = drawn({5, 2, 3}, 1), hidden = drawn({4, 2, 4}, 2), cell = drawn({4, 2, 4}, 3);
  const std::vector<Tensor> got = run_both_ways(*layer, {x, hidden, cell});
  const RnnResult expected = lockstep::rnn(x,
                                           {weights(*layer, "l0_"), weights(*layer, "r0_"),
                                            weights(*layer, "l1_"), weights(*layer, "r1_")},
                                           {.mode = "lstm", .bidirectional = true}, hidden, cell);
  expect_all_close(got, {expected.y, expected.hidden, expected.cell}, 1e-5, "lstm");
  EXPECT_EQ(layer->parameter("l1_i2h_weight").shape(), (Shape{16, 8}));
  EXPECT_EQ(layer->description(), "LSTM(4, 2 layers, bidirectional)");
}

TEST(Recurrent, BatchFirstIsTheSameTransposed) {
  const auto time_first = gru(4), batch_first = gru(4, {.layout = "NTC"});
  const Tensor x = drawn({5, 2, 3}, 1);
  const std::vector<Tensor> a = run_both_ways(*time_first, std::vector<Tensor>{x});
  const std::vector<Tensor> b =
      run_both_ways(*batch_first, std::vector<Tensor>{swap_axes(x, 0, 1)});
  expect_close(swap_axes(b[0], 0, 1), a[0], 1e-6);
  expect_close(b[1], a[1], 1e-6);
}

TEST(Recurrent, DropsBetweenLayersInTrainModeOnly) {
  const auto plain = lstm(8, {.layers = 2}), dropping = lstm(8, {.layers = 2, .dropout = 0.5});
  const Tensor x = drawn({5, 2, 3}, 1);
  const RandomScope draws(random_key(1));
  expect_close(run_both_ways(*dropping, x), run_both_ways(*plain, x), 1e-6);
  const autograd::ModeScope train(true);
  const Tensor y = (*dropping)(x), again = (*dropping)(x);
  EXPECT_NE(y.to_vector<float>(), (*plain)(x).to_vector<float>());
  EXPECT_NE(y.to_vector<float>(), again.to_vector<float>());
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { lstm(0); }), "lstm: hidden is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { gru(2, {.layers = 0}); }), "gru: layers is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { gru(2, {.layout = "NCT"}); }),
            "gru: layout is 'NCT', expected TNC or NTC");
  EXPECT_EQ(message_of([] { gru(2, {.dropout = 1.5}); }),
            "gru: dropout is 1.5, expected 0 <= dropout < 1");
  EXPECT_EQ(message_of([] { nn::rnn(2, {.activation = "elu"}); }),
            "rnn: activation is 'elu', expected tanh or relu");
  EXPECT_EQ(message_of([] { Recurrent("peephole", 2); }),
            "rnn: mode is 'peephole', expected lstm, gru, rnn_tanh or rnn_relu");
  const auto layer = lstm(2);
  layer->initialize();
  EXPECT_EQ(message_of([&] {
              (*layer)(ones({2, 3}));
            }),
            "lstm: x has shape [2, 3], expected 3 axes (TNC)");
  EXPECT_EQ(message_of([&] {
              (*layer)(std::vector<Tensor>(2, ones({1, 1, 1})));
            }),
            "lstm: takes 1 or 3 inputs, got 2");
}

}  // namespace
}  // namespace lockstep::nn
