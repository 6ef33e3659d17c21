// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ctc.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/create.h"
#include "tests/message.h"
#include "tests/ops/calls.h"

namespace lockstep::testing {
namespace {

using Labels = std::vector<std::int64_t>;

TEST(Ctc, UniformScoresCountAlignments) {
  // Two steps, three classes: "1" is said by 1 1, 0 1 and 1 0 of nine paths.
  const Tensor loss = ctc_loss(zeros({2, 1, 3}), Tensor::from(Labels{1}, {1, 1}));
  EXPECT_NEAR(loss.item(), -std::log(3.0 / 9.0), 1e-6);
}

TEST(Ctc, LabelLengthsEndRowsAsNegativeLabelsDo) {
  const Tensor logits = random_floats({6, 2, 4}, 1);
  const Tensor marked = Tensor::from(Labels{1, 2, -1, 3, -1, -1}, {2, 3});
  const Tensor whole = Tensor::from(std::vector<std::int32_t>{1, 2, 2, 3, 1, 1}, {2, 3});
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{2, 1}, {2});
  EXPECT_EQ(ctc_loss(logits, marked).to_vector<float>(),
            ctc_loss(logits, whole, 0, {}, lengths).to_vector<float>());
}

TEST(Ctc, ALabelThatDoesNotFitHasInfiniteLossAndNoGradient) {
  const Tensor logits = random_floats({2, 1, 3}, 1);
  autograd::attach_grad(logits);
  Tensor loss;
  {
    autograd::RecordScope record;
    loss = ctc_loss(logits, Tensor::from(Labels{1, 1}, {1, 2}));
  }
  autograd::backward(loss);
  EXPECT_EQ(loss.item(), INFINITY);
  EXPECT_EQ(autograd::gradient(logits).to_vector<float>(), std::vector<float>(6, 0.0f));
}

TEST(Ctc, ALogitThatIsNotANumberMakesItsSamplesGradientNaNAndNoOther) {
  const Tensor logits = random_floats({4, 2, 3}, 1);
  logits.data<float>()[3] = NAN;  // step 0 of sample 1
  autograd::attach_grad(logits);
  Tensor loss;
  {
    autograd::RecordScope record;
    loss = ctc_loss(logits, Tensor::from(Labels{1, 2}, {2, 1}));
  }
  autograd::backward(loss);
  EXPECT_TRUE(std::isfinite(loss.to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(loss.to_vector<float>()[1]));
  const std::vector<float> gradient = autograd::gradient(logits).to_vector<float>();
  for (std::size_t i = 0; i < gradient.size(); ++i)
    EXPECT_EQ(std::isnan(gradient[i]), i / 3 % 2 == 1) << i;
}

TEST(Ctc, NoStepsSayTheEmptyLabelOnly) {
  const Tensor labels = Tensor::from(Labels{-1, 1}, {2, 1});
  const std::vector<float> losses = ctc_loss(zeros({0, 2, 3}), labels).to_vector<float>();
  EXPECT_EQ(losses, (std::vector<float>{0.0f, INFINITY}));
}

TEST(Ctc, LongSequencesDoNotUnderflow) {
  const std::int64_t steps = 400;
  const Tensor labels = Tensor::from(Labels(100, 1), {1, 100});
  const double loss = ctc_loss(random_floats({steps, 1, 50}, 1, -20.0, 20.0), labels).item();
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_GT(loss, 1000.0);
}

TEST(Ctc, BadInputsAreNamed) {
  const Tensor x = zeros({4, 2, 3});
  const Tensor labels = Tensor::from(Labels{1, 2}, {2, 1});
  EXPECT_EQ(message_of([&] {
              ctc_loss(zeros({4, 3}), labels);
            }),
            "ctc_loss: logits have shape [4, 3], expected [T, N, C]");
  EXPECT_EQ(message_of([&] {
              ctc_loss(x, Tensor::from(Labels{1}, {1, 1}));
            }),
            "ctc_loss: labels are int64[1, 1], expected int64[2, L]");
  EXPECT_EQ(message_of([&] { ctc_loss(x, labels, 3); }), "ctc_loss: blank is 3, expected 0..2");
  EXPECT_EQ(message_of([&] {
              ctc_loss(x, Tensor::from(Labels{1, 3}, {2, 1}));
            }),
            "ctc_loss: label 3 at [1, 0] is outside 0..2");
  EXPECT_EQ(message_of([&] { ctc_loss(x, labels, 1); }),
            "ctc_loss: label 1 at [0, 0] is the blank");
  EXPECT_EQ(message_of([&] {
              ctc_loss(x, labels, 0, Tensor::from(Labels{4, 5}, {2}));
            }),
            "ctc_loss: input length 5 of sample 1 is outside 0..4");
  EXPECT_EQ(message_of([&] { ctc_loss(x, labels, 0, Tensor::from(Labels{4}, {1})); }),
            "ctc_loss: input lengths are int64[1], expected int64[2]");
  EXPECT_EQ(message_of([&] { ctc_loss(x, labels, 0, {}, Tensor::from(Labels{4}, {1})); }),
            "ctc_loss: labels have shape [2, 1] and label lengths [1], expected [N, L] and [N]");
}

}  // namespace
}  // namespace lockstep::testing
