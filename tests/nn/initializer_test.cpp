// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/ops/matmul.h"
#include "lockstep/ops/random_ops.h"
#include "tests/message.h"

namespace lockstep::nn {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

Floats made_by(const Initializer& init, const Shape& shape) {
  const RandomScope draws(random_key(11));
  const Tensor value = init.make(shape);
  EXPECT_EQ(value.shape(), shape);
  return value.to_vector<float>();
}

double largest(const Floats& values) {
  double result = 0.0;
  for (const float value : values) result = std::max(result, std::abs(double{value}));
  return result;
}

double deviation(const Floats& values) {
  double square = 0.0;
  for (const float value : values) square += double{value} * double{value};
  return std::sqrt(square / static_cast<double>(values.size()));
}

// Nearly fills [-bound, bound] and stays inside.
void expect_uniform(const Floats& values, double bound) {
  EXPECT_LE(largest(values), bound);
  EXPECT_GT(largest(values), 0.99 * bound);
  EXPECT_NEAR(deviation(values), bound / std::sqrt(3.0), 0.03 * bound);
}

TEST(Initializer, ZeroOneAndConstantAreThat) {
  EXPECT_EQ(made_by(init::zero(), {2}), (Floats{0, 0}));
  EXPECT_EQ(made_by(init::one(), {2}), (Floats{1, 1}));
  EXPECT_EQ(made_by(init::constant(-2.5), {2}), (Floats{-2.5, -2.5}));
  EXPECT_EQ(init::constant(-2.5).name, "constant(-2.5)");
}

TEST(Initializer, UniformAndNormalHaveTheirScale) {
  expect_uniform(made_by(init::uniform(0.3), {100, 100}), 0.3);
  const Floats values = made_by(init::normal(0.2), {100, 100});
  EXPECT_NEAR(deviation(values), 0.2, 0.005);
  EXPECT_GT(largest(values), 0.5);
}

TEST(Initializer, FanInLooksAtTheInputsOfAUnit) {
  expect_uniform(made_by(init::fan_in(), {200, 25}), 0.2);
  expect_uniform(made_by(init::fan_in(), {100, 4, 5, 5}), 0.1);
}

TEST(Initializer, XavierIsInItsBounds) {
  expect_uniform(made_by(init::xavier(), {100, 50}), std::sqrt(3.0 / 75.0));
  expect_uniform(made_by(init::xavier(false, init::Fan::in), {100, 50}), std::sqrt(3.0 / 50.0));
  expect_uniform(made_by(init::xavier(false, init::Fan::out, 2.0), {64, 8, 3, 3}),
                 std::sqrt(2.0 / (64 * 9)));
  EXPECT_NEAR(deviation(made_by(init::xavier(true), {100, 50})), 0.2, 0.01);
  EXPECT_EQ(init::xavier().name, "xavier(uniform, average, 3)");
}

TEST(Initializer, MsraPreluFollowsTheSlope) {
  EXPECT_NEAR(deviation(made_by(init::msra_prelu(init::Fan::in, 0.0), {100, 50})),
              std::sqrt(2.0 / 50.0), 0.01);
  EXPECT_NEAR(deviation(made_by(init::msra_prelu(init::Fan::in, 1.0), {100, 50})),
              std::sqrt(1.0 / 50.0), 0.01);
}

void expect_orthonormal(const Tensor& gram, double scale) {
  const std::int64_t size = gram.shape(0);
  const Floats values = gram.to_vector<float>();
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      ASSERT_NEAR(values[static_cast<std::size_t>(i * size + j)], i == j ? scale * scale : 0.0,
                  1e-5);
}

TEST(Initializer, OrthogonalRowsOrColumnsAreOrthonormal) {
  const RandomScope draws(random_key(4));
  const Tensor wide = init::orthogonal(1.5).make({6, 10});
  expect_orthonormal(matmul(wide, wide, false, true), 1.5);
  const Tensor tall = init::orthogonal(1.0).make({10, 6});
  expect_orthonormal(matmul(tall, tall, true, false), 1.0);
  EXPECT_EQ(init::orthogonal().make({4, 2, 3, 3}).shape(), (Shape{4, 2, 3, 3}));
}

TEST(Initializer, BilinearInterpolates) {
  EXPECT_EQ(made_by(init::bilinear(), {1, 1, 4, 4}),
            (Floats{0.0625, 0.1875, 0.1875, 0.0625, 0.1875, 0.5625, 0.5625, 0.1875, 0.1875, 0.5625,
                    0.5625, 0.1875, 0.0625, 0.1875, 0.1875, 0.0625}));
}

TEST(Initializer, LstmBiasOpensTheForgetGate) {
  EXPECT_EQ(made_by(init::lstm_bias(2.0), {8}), (Floats{0, 0, 2, 2, 0, 0, 0, 0}));
}

TEST(Initializer, RefusesWhatHasNoMeaning) {
  const RandomScope draws(random_key(0));
  EXPECT_EQ(message_of([] { init::uniform(0.0); }), "uniform: scale is 0, expected more than 0");
  EXPECT_EQ(message_of([] { init::normal(-1.0); }), "normal: sigma is -1, expected more than 0");
  EXPECT_EQ(message_of([] { init::xavier().make({3}); }),
            "xavier: shape is [3], expected two axes or more");
  EXPECT_EQ(message_of([] {
              init::bilinear().make({3, 3});
            }),
            "bilinear: shape is [3, 3], expected [in, out, height, width]");
  EXPECT_EQ(message_of([] { init::lstm_bias().make({6}); }),
            "lstm_bias: shape is [6], expected [4 hidden]");
}

}  // namespace
}  // namespace lockstep::nn
