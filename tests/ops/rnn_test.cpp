// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/rnn.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/rnn_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"
#include "tests/ops/calls.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = x.size() == y.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
    worst = std::max(worst, std::isnan(x[i]) ? INFINITY : std::abs(x[i] - y[i]));
  return worst;
}

std::int64_t gates_of(const std::string& mode) {
  return mode == "lstm" ? 4 : mode == "gru" ? 3 : 1;
}

RnnWeights weights(const std::string& mode, std::int64_t inputs, std::int64_t hidden,
                   std::uint64_t seed) {
  const std::int64_t rows = gates_of(mode) * hidden;
  return {random_tensor({rows, inputs}, seed), random_tensor({rows, hidden}, seed + 1),
          random_tensor({rows}, seed + 2), random_tensor({rows}, seed + 3)};
}

Tensor narrow(const Tensor& x) {
  Tensor result = Tensor::empty(x.shape(), DType::float32);
  result.assign(x);
  return result;
}

TEST(Rnn, RefusesAnUnknownMode) {
  EXPECT_EQ(message_of([] {
              rnn(Tensor::zeros({1, 1, 1}), {weights("lstm", 1, 1, 1)}, {"rnn_elu", false});
            }),
            "rnn: mode is 'rnn_elu', expected lstm, gru, rnn_tanh or rnn_relu");
}

TEST(Rnn, RefusesWeightsThatDoNotPairUp) {
  const Tensor x = random_tensor({2, 1, 3}, 1);
  const RnnWeights one = weights("gru", 3, 2, 2);
  EXPECT_EQ(message_of([&] {
              rnn(x, {}, {"gru", false});
            }),
            "rnn: got weights of 0 layers and directions, expected a multiple of 1");
  EXPECT_EQ(message_of([&] {
              rnn(x, {one}, {"gru", true});
            }),
            "rnn: got weights of 1 layers and directions, expected a multiple of 2");
  RnnWeights holes = one;
  holes.w_hidden = {};
  EXPECT_EQ(message_of([&] {
              rnn(x, {one, holes}, {"gru", false});
            }),
            "rnn: w_input or w_hidden number 1 is undefined");
}

TEST(Rnn, RefusesShapesThatDoNotFit) {
  const Tensor x = random_tensor({2, 5, 3}, 1);
  const RnnWeights good = weights("lstm", 3, 2, 2);
  const RnnOptions lstm{"lstm", false};
  EXPECT_EQ(message_of([&] { rnn({}, {good}, lstm); }), "rnn: x is undefined");
  EXPECT_EQ(message_of([&] {
              rnn(random_tensor({5, 3}, 1), {good}, lstm);
            }),
            "rnn: x has shape [5, 3], expected [T, N, I]");
  EXPECT_EQ(message_of([&] {
              rnn(x, {good}, lstm, random_tensor({5, 2}, 1));
            }),
            "rnn: hidden has shape [5, 2], expected [1, 5, 2]");
  EXPECT_EQ(message_of([&] {
              rnn(x, {good}, lstm, {}, random_tensor({1, 5, 3}, 1));
            }),
            "rnn: cell has shape [1, 5, 3], expected [1, 5, 2]");
  EXPECT_EQ(message_of([&] {
              rnn(x, {weights("gru", 3, 2, 2)}, {"gru", false}, {}, random_tensor({1, 5, 2}, 1));
            }),
            "rnn: gru has no cell");
}

struct BadWeight {
  Tensor RnnWeights::*which;
  Shape shape;
  std::string message;
};

TEST(RnnLayer, RefusesWeightsThatDoNotFit) {
  const BadWeight bad[] = {
      {&RnnWeights::w_input, {8, 4}, "rnn: w_input has shape [8, 4], expected [8, 3]"},
      {&RnnWeights::w_hidden, {6, 2}, "rnn: w_hidden has shape [6, 2], expected [8, 2]"},
      {&RnnWeights::b_input, {2}, "rnn: b_input has shape [2], expected [8]"},
      {&RnnWeights::b_hidden, {8, 1}, "rnn: b_hidden has shape [8, 1], expected [8]"},
  };
  for (const BadWeight& b : bad) {
    RnnWeights w = weights("lstm", 3, 2, 2);
    w.*b.which = random_tensor(b.shape, 9);
    EXPECT_EQ(message_of([&] {
                rnn(random_tensor({2, 5, 3}, 1), {w}, {"lstm", false});
              }),
              b.message);
  }
}

TEST(RnnLayer, RefusesDtypesThatDoNotFit) {
  const RnnWeights w = weights("gru", 3, 2, 2);
  EXPECT_EQ(message_of([&] {
              rnn(narrow(random_tensor({2, 5, 3}, 1)), {w}, {"gru", false});
            }),
            "rnn: w_hidden is float64, expected float32");
  EXPECT_EQ(message_of([&] {
              rnn(Tensor::zeros({2, 5, 3}, DType::int64), {w}, {"gru", false});
            }),
            "rnn: x is int64, expected a floating dtype");
}

TEST(RnnLayer, RefusesANumberOfInputsThatTheModeDoesNotTake) {
  const Tensor x = random_tensor({2, 5, 3}, 1), h = random_tensor({5, 2}, 2);
  const RnnWeights w = weights("lstm", 3, 2, 3);
  const auto run = [&](const char* mode, const std::vector<Tensor>& inputs) {
    return message_of([&] {
      apply(*find_op("rnn_layer"), inputs, Attrs::of(RnnAttrs{mode, false}));
    });
  };
  EXPECT_EQ(run("lstm", {x, h, w.w_input, w.w_hidden, w.b_input, w.b_hidden}),
            "rnn_layer: lstm takes 7 inputs, got 6");
  EXPECT_EQ(run("gru", {x, h, h, w.w_input, w.w_hidden, w.b_input, w.b_hidden}),
            "rnn_layer: gru takes 6 inputs, got 7");
}

TEST(RnnLayerBackward, RefusesWhatTheForwardPassDidNotMake) {
  const Tensor x = random_tensor({2, 5, 3}, 1), h = random_tensor({5, 2}, 2);
  const RnnWeights w = weights("gru", 3, 2, 3);
  const Tensor y = random_tensor({2, 5, 2}, 4), kept = random_tensor({2, 5, 8}, 5);
  const auto run = [&](const Tensor& dy, const Tensor& dh, const Tensor& given_y,
                       const Tensor& workspace) {
    return message_of([&] {
      const std::vector<Tensor> inputs{dy,         dh,        x,          h,       w.w_input,
                                       w.w_hidden, w.b_input, w.b_hidden, given_y, workspace};
      apply(*find_op("rnn_layer_backward"), inputs, Attrs::of(RnnBackwardAttrs{"gru"}));
    });
  };
  EXPECT_EQ(run(y, h, y, kept), "nothing was thrown");
  EXPECT_EQ(run(x, h, y, kept), "rnn_layer_backward: dy has shape [2, 5, 3], expected [2, 5, 2]");
  EXPECT_EQ(run(y, y, y, kept), "rnn_layer_backward: dh_n has shape [2, 5, 2], expected [5, 2]");
  EXPECT_EQ(run(y, h, x, kept), "rnn_layer_backward: y has shape [2, 5, 3], expected [2, 5, 2]");
  EXPECT_EQ(run(y, h, y, y),
            "rnn_layer_backward: workspace has shape [2, 5, 2], expected [2, 5, 8]");
  EXPECT_EQ(message_of([&] {
              const std::vector<Tensor> inputs(12, h);
              apply(*find_op("rnn_layer_backward"), inputs, Attrs::of(RnnBackwardAttrs{"gru"}));
            }),
            "rnn_layer_backward: gru takes 10 inputs, got 12");
}

TEST(Rnn, StartsFromZerosAndAddsNoBiasUnlessTold) {
  const Tensor x = random_tensor({3, 2, 4}, 1);
  for (const std::string mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
    RnnWeights w = weights(mode, 4, 3, 2);
    w.b_input = w.b_hidden = Tensor::zeros({gates_of(mode) * 3}, DType::float64);
    const Tensor zeros = Tensor::zeros({1, 2, 3}, DType::float64);
    const Tensor want = rnn(x, {w}, {mode, false}, zeros, mode == "lstm" ? zeros : Tensor()).y;
    w.b_input = w.b_hidden = {};
    EXPECT_EQ(largest_difference(rnn(x, {w}, {mode, false}).y, want), 0.0) << mode;
  }
}

TEST(Rnn, ReadsTheSequenceBackwardsInTheOtherDirection) {
  const Tensor x = random_tensor({4, 2, 3}, 1);
  const RnnWeights a = weights("gru", 3, 2, 2), b = weights("gru", 3, 2, 6);
  const RnnResult both = rnn(x, {a, b}, {"gru", true});
  const RnnResult first = rnn(x, {a}, {"gru", false});
  const RnnResult second = rnn(flip(x, {0}), {b}, {"gru", false});
  EXPECT_EQ(largest_difference(both.y, concat({first.y, flip(second.y, {0})}, 2)), 0.0);
  EXPECT_EQ(largest_difference(both.hidden, concat({first.hidden, second.hidden}, 0)), 0.0);
  EXPECT_FALSE(both.cell.defined());
}

TEST(Rnn, FeedsALayersOutputToTheNext) {
  const Tensor x = random_tensor({4, 2, 3}, 1);
  const RnnWeights a = weights("lstm", 3, 2, 2), b = weights("lstm", 2, 2, 6);
  const Tensor hidden = random_tensor({2, 2, 2}, 11), cell = random_tensor({2, 2, 2}, 12);
  const auto part = [](const Tensor& state, std::int64_t i) {
    return slice_axis(state, 0, i, i + 1);
  };
  const RnnResult both = rnn(x, {a, b}, {"lstm", false}, hidden, cell);
  const RnnResult first = rnn(x, {a}, {"lstm", false}, part(hidden, 0), part(cell, 0));
  const RnnResult second = rnn(first.y, {b}, {"lstm", false}, part(hidden, 1), part(cell, 1));
  EXPECT_EQ(largest_difference(both.y, second.y), 0.0);
  EXPECT_EQ(largest_difference(both.hidden, concat({first.hidden, second.hidden}, 0)), 0.0);
  EXPECT_EQ(largest_difference(both.cell, concat({first.cell, second.cell}, 0)), 0.0);
}

// Long enough for several chunks of steps, the last one shorter.
TEST(RnnLayer, GivesOnALongSequenceWhatItsReferenceGives) {
  const std::int64_t steps = 37, batch = 33, inputs = 20, hidden = 128;
  for (const std::string mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    for (bool reverse : {false, true}) {
      const Attrs attrs = Attrs::of(RnnAttrs{mode, reverse});
      const std::int64_t rows = gates_of(mode) * hidden;
      std::vector<Tensor> wide{random_tensor({steps, batch, inputs}, 1),
                               random_tensor({batch, hidden}, 2)};
      if (mode == "lstm") wide.push_back(random_tensor({batch, hidden}, 3));
      wide.push_back(random_tensor({rows, inputs}, 4, -0.1, 0.1));
      wide.push_back(random_tensor({rows, hidden}, 5, -0.1, 0.1));
      wide.push_back(random_tensor({rows}, 6));
      wide.push_back(random_tensor({rows}, 7));
      const auto run = [&](bool single) {
        std::vector<Tensor> in;
        for (const Tensor& x : wide) in.push_back(single ? narrow(x) : x);
        std::vector<Tensor> out = apply(*find_op("rnn_layer"), in, attrs);
        std::vector<Tensor> back;
        for (std::size_t i = 0; i + 1 < out.size(); ++i) {
          const Tensor grad = random_tensor(out[i].shape(), 20 + i);
          back.push_back(single ? narrow(grad) : grad);
        }
        back.insert(back.end(), in.begin(), in.end());
        back.insert(back.end(), {out.front(), out.back()});
        const auto grads =
            apply(*find_op("rnn_layer_backward"), back, Attrs::of(RnnBackwardAttrs{mode, reverse}));
        out.insert(out.end(), grads.begin(), grads.end());
        return out;
      };
      const auto got = run(true), want = run(false);
      for (std::size_t i = 0; i < want.size(); ++i) {
        double scale = 1.0;
        for (double v : want[i].to_vector<double>()) scale = std::max(scale, std::abs(v));
        EXPECT_LT(largest_difference(got[i], want[i]), 2e-5 * scale) << mode << " output " << i;
      }
    }
}

// y and the gradient of x of sample 0, which has all steps while the others have `length`.
std::vector<float> first_sample(const std::string& mode, bool reverse, std::int64_t length) {
  const std::int64_t steps = 9, batch = 33, inputs = 20, hidden = 72;
  const std::int64_t rows = gates_of(mode) * hidden;
  std::vector<Tensor> in{narrow(random_tensor({steps, batch, inputs}, 1)),
                         narrow(random_tensor({batch, hidden}, 2))};
  if (mode == "lstm") in.push_back(narrow(random_tensor({batch, hidden}, 3)));
  in.push_back(narrow(random_tensor({rows, inputs}, 4, -0.1, 0.1)));
  in.push_back(narrow(random_tensor({rows, hidden}, 5, -0.1, 0.1)));
  in.push_back(narrow(random_tensor({rows}, 6)));
  in.push_back(narrow(random_tensor({rows}, 7)));
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), length);
  lengths[0] = steps;
  in.push_back(Tensor::from(lengths, {batch}));
  const std::vector<Tensor> out =
      apply(*find_op("rnn_layer"), in, Attrs::of(RnnAttrs{mode, reverse, true}));
  std::vector<Tensor> back{narrow(random_tensor(out[0].shape(), 20))};
  back.insert(back.end(), in.begin(), in.end());
  back.insert(back.end(), {out.front(), out.back()});
  const Tensor dx = apply(*find_op("rnn_layer_backward"), back,
                          Attrs::of(RnnBackwardAttrs{mode, reverse, true, false, false, true}))[0];
  std::vector<float> result;
  for (const Tensor& x : {out[0], dx})
    for (const float value : slice_axis(x, 1, 0, 1).to_vector<float>()) result.push_back(value);
  return result;
}

TEST(RnnLayer, BitsOfASampleDoNotDependOnTheLengthsOfOthers) {
  for (const std::string mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    for (const bool reverse : {false, true})
      EXPECT_EQ(first_sample(mode, reverse, 9), first_sample(mode, reverse, 1)) << mode;
}

// x [T, N, I] with `padding` beyond the lengths.
Tensor padded(const Tensor& x, const std::vector<std::int64_t>& lengths, double padding) {
  Array result(x);
  for_each_coordinate(x.shape(), [&](const Ints& at) {
    if (at[0] >= lengths[static_cast<std::size_t>(at[1])]) result(at) = padding;
  });
  return result.tensor();
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(largest_difference(got[i], want[i]), 0.0) << what << ", result " << i;
}

// Outputs and gradients of a layer over several chunks of steps, one element of each weight being
// `odd`.
std::vector<Tensor> layer_results(const std::string& mode, bool reverse, DType dtype,
                                  double padding, double odd = 0.05) {
  const std::int64_t steps = 37, batch = 33, inputs = 5, hidden = 128;
  const std::int64_t rows = gates_of(mode) * hidden;
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < batch; ++i) lengths.push_back(i * steps / (batch - 1));
  std::vector<Tensor> in{padded(random_tensor({steps, batch, inputs}, 1), lengths, padding),
                         random_tensor({batch, hidden}, 2)};
  if (mode == "lstm") in.push_back(random_tensor({batch, hidden}, 3));
  in.push_back(random_tensor({rows, inputs}, 4, -0.1, 0.1));
  in.push_back(random_tensor({rows, hidden}, 5, -0.1, 0.1));
  in.push_back(random_tensor({rows}, 6));
  in.push_back(random_tensor({rows}, 7));
  const std::size_t first_weight = in.size() - 4;
  for (const std::size_t i : {first_weight, first_weight + 1}) in[i].data<double>()[3] = odd;
  for (Tensor& x : in) x = cast(x, dtype);
  in.push_back(Tensor::from(lengths, {batch}));
  std::vector<Tensor> out =
      apply(*find_op("rnn_layer"), in, Attrs::of(RnnAttrs{mode, reverse, true}));
  std::vector<Tensor> back{cast(random_tensor(out[0].shape(), 20), dtype)};
  back.insert(back.end(), in.begin(), in.end());
  back.insert(back.end(), {out.front(), out.back()});
  for (const Tensor& grad :
       apply(*find_op("rnn_layer_backward"), back,
             Attrs::of(RnnBackwardAttrs{mode, reverse, true, false, false, true})))
    out.push_back(grad);
  return out;
}

TEST(RnnLayer, WhatStandsBeyondASequencesEndHasNoInfluence) {
  for (const std::string mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    for (const bool reverse : {false, true})
      for (const DType dtype : {DType::float32, DType::bfloat16})
        expect_same(layer_results(mode, reverse, dtype, NAN),
                    layer_results(mode, reverse, dtype, 0.0), mode);
  expect_same(layer_results("lstm", false, DType::float64, NAN),
              layer_results("lstm", false, DType::float64, 0.0), "float64");
}

TEST(RnnLayer, ANanOfTheWeightsIsNotSpreadByStepsBeyondASequencesEnd) {
  for (const std::string mode : {"lstm", "gru", "rnn_tanh"})
    for (const bool reverse : {false, true}) {
      const auto got = layer_results(mode, reverse, DType::float32, 0.0, NAN);
      const auto want = layer_results(mode, reverse, DType::float64, 0.0, NAN);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const auto a = got[i].to_vector<double>(), b = want[i].to_vector<double>();
        for (std::size_t k = 0; k < b.size(); ++k)
          ASSERT_EQ(std::isnan(a[k]), std::isnan(b[k])) << mode << ", result " << i << ", " << k;
      }
    }
}

// Two layers in two directions: outputs, gradients of a loss, gradients of their squares.
std::vector<Tensor> deep_results(const std::string& mode, double padding) {
  const std::vector<std::int64_t> lengths{2, 4, 0, 1};
  const Tensor x = narrow(padded(random_tensor({4, 4, 3}, 1), lengths, padding));
  std::vector<RnnWeights> layers;
  std::vector<Tensor> variables{x};
  for (std::uint64_t i = 0; i < 4; ++i) {
    const RnnWeights w = weights(mode, i < 2 ? 3 : 4, 2, 10 * i);
    layers.push_back(
        {narrow(w.w_input), narrow(w.w_hidden), narrow(w.b_input), narrow(w.b_hidden)});
    const RnnWeights& kept = layers.back();
    variables.insert(variables.end(), {kept.w_input, kept.w_hidden, kept.b_input, kept.b_hidden});
  }
  for (const Tensor& variable : variables) autograd::attach_grad(variable);
  const autograd::RecordScope record;
  const RnnResult result = rnn(x, layers, {mode, true}, {}, {}, Tensor::from(lengths, {4}));
  std::vector<Tensor> all{result.y, result.hidden};
  if (result.cell.defined()) all.push_back(result.cell);
  const Tensor loss = sum(square(result.y)) + sum(result.hidden);
  const std::vector<Tensor> first = autograd::grad({loss}, variables, {}, true);
  Tensor squares = sum(square(first[0]));
  for (std::size_t i = 1; i < first.size(); ++i) squares = squares + sum(square(first[i]));
  const std::vector<Tensor> second = autograd::grad({squares}, variables);
  all.insert(all.end(), first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

TEST(Rnn, GradientsAndTheirsIgnoreWhatStandsBeyondASequencesEnd) {
  for (const std::string mode : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    expect_same(deep_results(mode, NAN), deep_results(mode, 0.0), mode);
}

}  // namespace
}  // namespace lockstep::testing
