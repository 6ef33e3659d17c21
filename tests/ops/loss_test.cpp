// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

Tensor labels(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Loss, ALabelOutOfRangeIsNamedWithItsRow) {
  const Tensor logits = zeros({3, 10});
  EXPECT_EQ(message_of([&] {
              softmax_cross_entropy(logits, labels({1, 10, 2}));
            }),
            "softmax_cross_entropy: label 10 of row 1 is outside 0..9");
  EXPECT_EQ(message_of([&] {
              softmax_cross_entropy(logits, labels({1, 2, -1}));
            }),
            "softmax_cross_entropy: label -1 of row 2 is outside 0..9");
}

TEST(Loss, LargeLogitsLoseNoPrecision) {
  const Tensor logits = Tensor::from(std::vector<float>{10000, 10001}, {1, 2});
  EXPECT_NEAR(softmax_cross_entropy(logits, labels({1})).item(), std::log1p(std::exp(-1.0)), 1e-6);
}

TEST(Loss, AnImpossibleClassThatIsNotTheLabelCostsNothing) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::from(std::vector<float>{0, -inf, 0}, {1, 3});
  EXPECT_NEAR(softmax_cross_entropy(logits, labels({0})).item(), std::log(2.0), 1e-6);
  const Tensor dense = Tensor::from(std::vector<float>{0.5, 0, 0.5}, {1, 3});
  EXPECT_NEAR(softmax_cross_entropy(logits, dense).item(), std::log(2.0), 1e-6);
}

TEST(Loss, AnInfiniteLogitCostsNothingOrInfinitelyMuch) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor logits = cast(Tensor::from(std::vector<double>{inf, inf, -inf, -inf}, {4}), dtype);
    const Tensor targets = cast(Tensor::from(std::vector<double>{0, 1, 0, 1}, {4}), dtype);
    EXPECT_EQ(sigmoid_cross_entropy(logits, targets).to_vector<double>(),
              (std::vector<double>{inf, 0, 0, inf}));
  }
}

TEST(Loss, DenseLabelsTakeTheLogitsDtype) {
  const Tensor dense = Tensor::from(std::vector<double>{1, 0}, {1, 2});
  EXPECT_EQ(softmax_cross_entropy(zeros({1, 2}), dense).dtype(), DType::float32);
  const Tensor bits = Tensor::from(std::vector<bool>{true, false}, {2});
  EXPECT_NEAR(sigmoid_cross_entropy(zeros({2}), bits).to_vector<double>()[0], std::log(2.0), 1e-6);
}

// With a log-sum-exp rounded to bfloat16 the gradient would be 2% off.
TEST(Loss, GradientsOfHalfLogitsAreAsExactAsTheirDtype) {
  const Tensor logits = full({1, 1000}, 5.0, DType::bfloat16);
  autograd::attach_grad(logits);
  Tensor loss;
  {
    autograd::RecordScope record;
    loss = softmax_cross_entropy(logits, labels({3}));
  }
  autograd::backward(loss);
  const auto grad = autograd::gradient(logits).to_vector<double>();
  EXPECT_NEAR(grad[0], 0.001, 0.001 / 256);
  EXPECT_NEAR(grad[3], -0.999, 0.999 / 256);
}

TEST(Loss, ShapesAndDtypesThatDoNotFitAreRefused) {
  const Tensor logits = zeros({3, 10});
  EXPECT_EQ(message_of([&] {
              softmax_cross_entropy(logits, labels({1, 2}));
            }),
            "softmax_cross_entropy: labels have shape [2], expected [3] for logits of shape "
            "[3, 10]");
  EXPECT_EQ(message_of([&] { softmax_cross_entropy(logits, zeros({3})); }),
            "softmax_cross_entropy: labels have shape [3], expected [3, 10] for logits of shape "
            "[3, 10]");
  EXPECT_EQ(message_of([&] { softmax_cross_entropy(logits, zeros({3}, DType::boolean)); }),
            "softmax_cross_entropy: labels are bool[3], expected class numbers or float32 "
            "probabilities");
  EXPECT_EQ(message_of([&] {
              softmax_cross_entropy(zeros({3, 0}), labels({0, 0, 0}));
            }),
            "softmax_cross_entropy: logits have shape [3, 0], expected a last axis of classes");
  EXPECT_EQ(message_of([&] {
              softmax_cross_entropy(zeros({3, 2}, DType::int32), labels({0}));
            }),
            "softmax_cross_entropy: logits are int32[3, 2], expected a floating dtype");
  EXPECT_EQ(message_of([&] {
              softmax_cross_entropy(logits, labels({0, 0, 0}), 1.5);
            }),
            "softmax_cross_entropy: smoothing is 1.5, expected 0 to 1");
  EXPECT_EQ(message_of([&] { sigmoid_cross_entropy(logits, zeros({10})); }),
            "sigmoid_cross_entropy: labels are float32[10], expected float32[3, 10] as the logits");
}

}  // namespace
}  // namespace lockstep
