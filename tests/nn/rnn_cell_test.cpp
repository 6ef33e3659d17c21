// SPDX-License-Identifier: Apache-2.0
// Recurrent layers step by step, and on sequences of different lengths.
#include "lockstep/nn/layers/rnn_cell.h"

#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/layers/rnn.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"
#include "tests/message.h"
#include "tests/nn/nets.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::expect_all_close;
using testing::expect_close;
using testing::message_of;
using testing::run_both_ways;
using Tensors = std::vector<Tensor>;
using Lengths = std::vector<std::int64_t>;

void take_weights(const Block& cell, const Block& layer) {
  for (const auto& [name, parameter] : cell.parameters())
    parameter.set_data(layer.parameter("l0_" + name).data());
}

void expect_loop_is_layer(RecurrentCell& cell, Recurrent& layer) {
  const Tensor x = drawn({5, 2, 3}, 1);
  const Tensors whole = run_both_ways(layer, Tensors{x});
  run_both_ways(cell, Tensors{drawn({2, 3}, 2)});
  take_weights(cell, layer);
  const Tensors loop = cell.unroll(x);
  expect_close(loop[0], whole[0], 1e-6);
  for (std::size_t i = 1; i < whole.size(); ++i)
    expect_close(loop[i], squeeze(whole[i], {0}), 1e-6);
  const Tensors other = cell.unroll(swap_axes(x, 0, 1), cell.begin_state(2), "NTC");
  expect_close(swap_axes(other[0], 0, 1), whole[0], 1e-6);
}

TEST(RecurrentCell, LoopIsTheLayer) {
  expect_loop_is_layer(*lstm_cell(4), *lstm(4));
  expect_loop_is_layer(*gru_cell(4), *gru(4));
  expect_loop_is_layer(*rnn_cell(4), *nn::rnn(4));
  expect_loop_is_layer(*rnn_cell(4, {.activation = "relu"}), *nn::rnn(4, {.activation = "relu"}));
}

TEST(RecurrentCell, LoopHasTheLayersGradients) {
  const auto cell = lstm_cell(4, {.inputs = 3});
  const auto layer = lstm(4, {.inputs = 3});
  layer->initialize(init::fan_in(), 1);
  cell->initialize();
  take_weights(*cell, *layer);
  const Tensor x = drawn({5, 2, 3}, 1);
  const autograd::RecordScope record;
  autograd::backward(sum(square((*layer)(x))));
  autograd::backward(sum(square(cell->unroll(x)[0])));
  for (const auto& [name, parameter] : cell->parameters())
    expect_close(parameter.grad(), layer->parameter("l0_" + name).grad(), 1e-5);
}

TEST(RecurrentCell, DescribesItselfAndRefusesWhatDoesNotFit) {
  EXPECT_EQ(lstm_cell(4)->description(), "LSTMCell(4)");
  EXPECT_EQ(gru_cell(4)->description(), "GRUCell(4)");
  EXPECT_EQ(rnn_cell(4)->description(), "RNNCell(4)");
  EXPECT_EQ(message_of([] { gru_cell(0); }), "gru_cell: hidden is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { rnn_cell(2, {.activation = "gelu"}); }),
            "rnn_cell: activation is 'gelu', expected tanh or relu");
  EXPECT_EQ(message_of([] {
              (*gru_cell(2))(zeros({1, 2, 3}));
            }),
            "gru_cell: x has shape [1, 2, 3], expected [N, I]");
  EXPECT_EQ(message_of([] {
              (*gru_cell(2))(Tensors{zeros({1, 3}), zeros({2, 2})});
            }),
            "gru_cell: state 1 has shape [2, 2], expected [1, 2]");
}

// What a sequence gives by itself, cut off at its length.
Tensors alone(Recurrent& layer, const Tensors& inputs, std::int64_t sample, std::int64_t length) {
  Tensors mine{slice(inputs[0], {0, sample}, {length, sample + 1})};
  for (std::size_t i = 1; i + 1 < inputs.size(); ++i)
    mine.push_back(slice_axis(inputs[i], 1, sample, sample + 1));
  mine.push_back(Tensor::from(Lengths{length}, {1}));
  return layer(mine);
}

void expect_each_is_alone(Recurrent& layer, const Tensors& states) {
  const Lengths lengths{3, 5, 1, 0};
  Tensors inputs{drawn({5, 4, 3}, 1)};
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.push_back(Tensor::from(lengths, {4}));
  const Tensors got = run_both_ways(layer, inputs);
  for (std::int64_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    const std::int64_t length = lengths[static_cast<std::size_t>(i)];
    const Tensor mine = slice_axis(got[0], 1, i, i + 1);
    EXPECT_EQ(sum(abs(slice_axis(mine, 0, length, 5))).item(), 0.0);
    const Tensors expected = alone(layer, inputs, i, length);
    expect_close(slice_axis(mine, 0, 0, length), expected[0], 1e-6);
    for (std::size_t k = 1; k < got.size(); ++k)
      expect_close(slice_axis(got[k], 1, i, i + 1), expected[k], 1e-6);
  }
}

TEST(SequenceLength, EachSequenceIsWhatItIsAlone) {
  for (const bool both : {false, true}) {
    const RnnLayerOptions options{.layers = 2, .bidirectional = both, .use_sequence_length = true};
    const std::int64_t rows = both ? 4 : 2;
    const Tensor h = drawn({rows, 4, 6}, 2), c = drawn({rows, 4, 6}, 3);
    expect_each_is_alone(*lstm(6, options), {h, c});
    expect_each_is_alone(*lstm(6, options), {});
    expect_each_is_alone(*gru(6, options), {h});
    expect_each_is_alone(*nn::rnn(6, options), {h});
  }
}

TEST(SequenceLength, WhatLiesBeyondPlaysNoPart) {
  const auto layer = lstm(4, {.bidirectional = true, .use_sequence_length = true});
  const Tensor lengths = Tensor::from(Lengths{2, 3}, {2});
  const Tensor x = drawn({3, 2, 3}, 1);
  layer->initialize();
  const Tensors clean = (*layer)(Tensors{x, lengths});
  const auto gradients = [&](const Tensor& input) {
    const autograd::RecordScope record;
    autograd::backward(sum(square((*layer)(Tensors{input, lengths})[0])));
    Tensors grads;
    for (const auto& named : layer->parameters()) grads.push_back(named.parameter.grad() * 1.0);
    return grads;
  };
  const Tensors before = gradients(x);
  const Tensor dirty = x * 1.0;
  for (int i = 0; i < 3; ++i) dirty.data<float>()[2 * 2 * 3 + i] = NAN;
  expect_all_close((*layer)(Tensors{dirty, lengths}), clean, 0.0, "outputs");
  expect_all_close(gradients(dirty), before, 0.0, "gradients");
}

TEST(SequenceLength, NamesWhatDoesNotFit) {
  const auto layer = gru(4, {.use_sequence_length = true});
  layer->initialize();
  const Tensor x = drawn({3, 2, 3}, 1);
  EXPECT_EQ(message_of([&] { (*layer)(x); }),
            "gru: use_sequence_length takes a list, {x, lengths}, got one tensor");
  EXPECT_EQ(message_of([&] {
              (*layer)(Tensors{x, Tensor::from(Lengths{2, 4}, {2})});
            }),
            "rnn: a length is 4, expected 0 to 3");
  EXPECT_EQ(message_of([&] {
              (*layer)(Tensors{x, zeros({2})});
            }),
            "rnn: lengths are float32, expected int32 or int64");
  EXPECT_EQ(message_of([&] {
              (*layer)(Tensors{x, Tensor::from(Lengths{2}, {1})});
            }),
            "rnn: lengths have shape [1], expected [2]");
}

}  // namespace
}  // namespace lockstep::nn
