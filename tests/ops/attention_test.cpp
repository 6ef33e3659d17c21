// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/attention_attrs.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "tests/ops/calls.h"
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

struct BadCall {
  Shape q, k, v;
  std::string message;
};

TEST(Attention, RefusesShapesThatDoNotFit) {
  const BadCall calls[] = {
      {{2, 3, 4},
       {2, 3, 4},
       {2, 3, 4},
       "scaled_dot_product_attention: q has shape [2, 3, 4], expected [B, H, T, D]"},
      {{1, 2, 3, 4},
       {1, 2, 3},
       {1, 2, 3, 4},
       "scaled_dot_product_attention: k has shape [1, 2, 3], expected [B, H, T, D]"},
      {{1, 2, 3, 4},
       {1, 3, 3, 4},
       {1, 2, 3, 4},
       "scaled_dot_product_attention: k has shape [1, 3, 3, 4], expected batch and heads of q [1, "
       "2, 3, 4]"},
      {{1, 2, 3, 4},
       {1, 2, 3, 5},
       {1, 2, 3, 4},
       "scaled_dot_product_attention: k has shape [1, 2, 3, 5], q has depth 4"},
      {{1, 2, 3, 4},
       {1, 2, 6, 4},
       {1, 2, 5, 4},
       "scaled_dot_product_attention: v has shape [1, 2, 5, 4], k has length 6"},
  };
  for (const BadCall& call : calls)
    EXPECT_EQ(message_of([&] {
                scaled_dot_product_attention(Tensor::zeros(call.q), Tensor::zeros(call.k),
                                             Tensor::zeros(call.v));
              }),
              call.message);
}

TEST(Attention, RefusesDtypesThatDoNotFit) {
  const Tensor x = Tensor::zeros({1, 1, 2, 2});
  const Tensor wide = Tensor::zeros({1, 1, 2, 2}, DType::float64);
  const Tensor whole = Tensor::zeros({1, 1, 2, 2}, DType::int32);
  EXPECT_EQ(message_of([&] { scaled_dot_product_attention(x, wide, x); }),
            "scaled_dot_product_attention: k is float64, q is float32");
  EXPECT_EQ(message_of([&] { scaled_dot_product_attention(whole, whole, whole); }),
            "scaled_dot_product_attention: q is int32, expected a floating dtype");
}

TEST(Attention, RefusesAMaskThatDoesNotFit) {
  const Tensor x = Tensor::zeros({1, 2, 3, 4});
  EXPECT_EQ(message_of([&] {
              scaled_dot_product_attention(x, x, x, Tensor::zeros({2, 3}));
            }),
            "scaled_dot_product_attention: mask has shape [2, 3], which does not broadcast to [1, "
            "2, 3, 3]");
  EXPECT_EQ(message_of([&] {
              scaled_dot_product_attention(x, x, x, Tensor::zeros({3, 3}, DType::int64));
            }),
            "scaled_dot_product_attention: mask is int64, expected bool or float32");
}

TEST(AttentionBackward, RefusesWhatTheForwardPassDidNotMake) {
  const Tensor x = Tensor::zeros({1, 2, 3, 4});
  const Tensor y = Tensor::zeros({1, 3, 2, 4});
  const Tensor lse = Tensor::zeros({1, 2, 3});
  const Attrs attrs = Attrs::of(AttentionAttrs{});
  const OpDef& op = *find_op("attention_backward");
  const auto run = [&](const Tensor& dy, const Tensor& made, const Tensor& sums) {
    return message_of([&] { apply_one(op, {dy, x, x, x, made, sums}, attrs); });
  };
  const Tensor other = Tensor::zeros({1, 3, 2, 5});
  EXPECT_EQ(run(other, y, lse),
            "attention_backward: dy is float32[1, 3, 2, 5], expected float32[1, 3, 2, 4]");
  EXPECT_EQ(run(y, other, lse),
            "attention_backward: y is float32[1, 3, 2, 5], expected float32[1, 3, 2, 4]");
  EXPECT_EQ(run(y, y, x),
            "attention_backward: log_sum is float32[1, 2, 3, 4], expected float32[1, 2, 3]");
}

TEST(Attention, TakesWindowsOfOneProjection) {
  const std::int64_t batch = 2, length = 70, heads = 3, depth = 8;
  const Tensor all = random_floats({batch, length, 3, heads, depth}, 1);
  const auto window = [&](std::int64_t which) {
    const std::int64_t row = 3 * heads * depth;
    return all.window({batch, heads, length, depth}, {length * row, depth, row, 1},
                      which * heads * depth);
  };
  const Tensor got = scaled_dot_product_attention(window(0), window(1), window(2), {}, true);
  const Tensor want = scaled_dot_product_attention(window(0).contiguous(), window(1).contiguous(),
                                                   window(2).contiguous(), {}, true);
  EXPECT_EQ(largest_difference(got, want), 0.0);
}

TEST(Attention, IsTheMeanOfTheValuesWhereScoresAreEqual) {
  const Tensor q = Tensor::zeros({1, 1, 2, 4});
  const Tensor v = Tensor::from(std::vector<float>{1, 2, 3, 6}, {1, 1, 4, 1});
  const Tensor y = scaled_dot_product_attention(q, Tensor::zeros({1, 1, 4, 4}), v);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3.0f, 3.0f}));
}

TEST(Attention, HoldsForScoresBeyondTheRangeOfExp) {
  const Tensor q = Tensor::full({1, 1, 3, 2}, 100.0);
  const Tensor k = random_floats({1, 1, 5, 2}, 2, -30.0, 30.0);
  const Tensor v = random_floats({1, 1, 5, 2}, 3);
  const auto wide = [](const Tensor& x) {
    Tensor result = Tensor::empty(x.shape(), DType::float64);
    result.assign(x);
    return result;
  };
  const Tensor got = scaled_dot_product_attention(q, k, v);
  const Tensor want = scaled_dot_product_attention(wide(q), wide(k), wide(v));
  EXPECT_LT(largest_difference(got, want), 1e-5);
}

TEST(Attention, GivesZerosToRowsThatSeeNothing) {
  for (DType dtype : {DType::float32, DType::float64}) {
    Tensor x = Tensor::empty({1, 1, 2, 2}, dtype);
    x.assign(random_tensor({1, 1, 2, 2}, 5));
    const Tensor mask = Tensor::from(std::vector<bool>{true, true, false, false}, {2, 2});
    autograd::attach_grad(x);
    Tensor y;
    {
      autograd::RecordScope record;
      y = scaled_dot_product_attention(x, x, x, mask);
    }
    const auto values = y.to_vector<double>();
    EXPECT_EQ(values[2], 0.0);
    EXPECT_EQ(values[3], 0.0);
    autograd::backward(y);
    for (double g : autograd::gradient(x).to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
  }
}

TEST(Attention, LetsNaNThrough) {
  Tensor k = Tensor::zeros({1, 1, 3, 2});
  k.data<float>()[2] = std::nanf("");
  const Tensor ones = Tensor::full({1, 1, 3, 2}, 1.0);
  for (float value : scaled_dot_product_attention(ones, k, ones).to_vector<float>())
    EXPECT_TRUE(std::isnan(value));
}

TEST(Attention, LetsRowsOfNothingButNaNThroughWhateverTheirBits) {
  for (const float nan : {std::nanf(""), -std::nanf(""), std::bit_cast<float>(0x7fc00001u)})
    for (const DType dtype : {DType::float32, DType::float64})
      for (const bool causal : {false, true}) {
        const Tensor q = cast(Tensor::from(std::vector<float>(50 * 8, nan), {1, 1, 50, 8}), dtype);
        const Tensor ones = Tensor::full({1, 1, 50, 8}, 1.0, dtype);
        const Tensor y = scaled_dot_product_attention(q, ones, ones, {}, causal);
        for (double value : y.to_vector<double>()) ASSERT_TRUE(std::isnan(value)) << causal;
      }
}

// Scores that are -inf by what the data are, not by a mask: softmax has no value for them.
TEST(Attention, GivesNaNToRowsWhoseScoresAreAllMinusInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor some = Tensor::from(std::vector<bool>{true, false}, {2});
  const Tensor added = Tensor::from(std::vector<float>{0.0f, -infinity}, {2});
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Tensor& mask : {Tensor(), some, cast(added, dtype)})
      for (const bool causal : {false, true}) {
        Tensor q = cast(Tensor::full({1, 1, 3, 1}, infinity), dtype);
        const Tensor k = Tensor::full({1, 1, 2, 1}, -1.0, dtype);
        autograd::attach_grad(q);
        Tensor y;
        {
          autograd::RecordScope record;
          y = scaled_dot_product_attention(q, k, k, mask, causal);
        }
        autograd::backward(y);
        std::vector<Tensor> inputs{q, k, k};
        if (mask.defined()) inputs.push_back(mask);
        const Attrs attrs = Attrs::of(AttentionAttrs{causal, 0.0});
        const auto composed = get_op("attention").decompose(inputs, attrs)[0].to_vector<double>();
        const auto values = y.to_vector<double>();
        const auto grads = autograd::gradient(q).to_vector<double>();
        for (std::size_t i = 0; i < 3; ++i) {
          const bool sees = !causal || i > 0;  // row 0 of 3 sees none of 2 columns
          EXPECT_EQ(std::isnan(values[i]), sees) << causal << ' ' << mask.defined();
          EXPECT_EQ(std::isnan(grads[i]), sees) << causal << ' ' << mask.defined();
          EXPECT_EQ(std::isnan(composed[i]), sees) << causal << ' ' << mask.defined();
        }
      }
}

}  // namespace
}  // namespace lockstep::testing
