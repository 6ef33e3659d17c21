// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

// The net passes on what it is given, with a weight for the optimiser that changes nothing.
nn::BlockPtr echo() {
  class Echo final : public nn::Block {
   public:
    Echo() : weight_(add_parameter("weight", {1}, {.init = nn::init::one()})) {}
    Tensor forward(const Tensor& x) override { return x * weight_.data(); }

   private:
    nn::Parameter weight_;
  };
  return std::make_shared<Echo>();
}

struct Accuracies {
  bool trained = false, evaluated = false;  // whether there is one
  double in_training = 0.0, in_evaluation = 0.0;
  std::vector<std::int64_t> predictions = {}, labels = {};
};

Accuracies accuracies(const Tensor& x, const Tensor& label, const LossFunction& loss,
                      bool wanted = true) {
  const nn::BlockPtr net = echo();
  Trainer trainer(net, loss, optim::sgd({.learning_rate = 0.0}),
                  {.global_batch = x.shape(0), .shards = 1, .accuracy = wanted});
  const auto set = std::make_shared<data::ArrayDataset>(data::Fields{x, label});
  const FitResult result = trainer.fit(set, {.steps = 1, .validation = set});
  const Evaluation evaluation = trainer.evaluate(*set, {.keep_predictions = true});
  EXPECT_EQ(result.validation.has_accuracy, evaluation.has_accuracy);
  EXPECT_EQ(result.validation.accuracy, evaluation.accuracy);
  return {result.has_accuracy, evaluation.has_accuracy, result.train_accuracy,
          evaluation.accuracy, evaluation.predictions,  evaluation.labels};
}

void expect_accuracy(const Accuracies& got, double expected) {
  EXPECT_TRUE(got.trained && got.evaluated);
  EXPECT_NEAR(got.in_training, expected, 1e-6);
  EXPECT_NEAR(got.in_evaluation, expected, 1e-12);
}

void expect_none(const Accuracies& got) { EXPECT_FALSE(got.trained || got.evaluated); }

// Largest: 2, 0, 1, 1.
Tensor scores() { return Tensor::from(Floats{0, 1, 2, 5, 1, 0, 0, 9, 1, -1, 0, -2}, {4, 3}); }

TEST(Accuracy, LabelsMayBeOfAnyKindThatTheLossTakes) {
  const Tensor right = Tensor::from(std::vector<std::int64_t>{2, 0, 0, 1}, {4});
  const nn::SoftmaxCrossEntropyLoss loss;
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8, DType::float32})
    for (const bool column : {false, true}) {
      const Tensor label = cast(column ? reshape(right, {4, 1}) : right, dtype);
      SCOPED_TRACE(label.info().str());
      const Accuracies got = accuracies(scores(), label, loss);
      expect_accuracy(got, 0.75);
      EXPECT_EQ(got.predictions, (std::vector<std::int64_t>{2, 0, 1, 1}));
      EXPECT_EQ(got.labels, (std::vector<std::int64_t>{2, 0, 0, 1}));
    }
  const Tensor likely = softmax(scores() * -1.0, -1) * 0.0 + one_hot(right, 3) * 0.8 + 0.06;
  expect_accuracy(accuracies(scores(), likely, loss), 0.75);
  expect_accuracy(
      accuracies(log_softmax(scores()), right, nn::SoftmaxCrossEntropyLoss({.from_logits = true})),
      0.75);
}

// Where another axis has as many positions as there are classes, the wrong one would fit too.
TEST(Accuracy, LeavesOutLabelsThatTheLossIgnores) {
  const nn::SoftmaxCrossEntropyLoss loss({.ignore_label = -1});
  const auto labels = [](std::vector<std::int64_t> values) { return Tensor::from(values, {4}); };
  expect_accuracy(accuracies(scores(), labels({2, -1, 0, -1}), loss), 0.5);
  expect_accuracy(accuracies(scores(), labels({-1, 0, -1, 1}), loss), 1.0);
  const Accuracies none = accuracies(scores(), labels({-1, -1, -1, -1}), loss);
  expect_accuracy(none, 0.0);
  EXPECT_TRUE(none.labels.empty());
}

TEST(Accuracy, ClassesLieAlongTheLosssAxis) {
  const Tensor pixels = reshape(scores(), {1, 4, 3});  // [N, positions, classes]
  const Tensor square = concat({pixels, pixels, pixels}, 1);
  for (const Tensor& by_position : {pixels, slice(square, {0, 0, 0}, {1, 3, 3})}) {
    const std::int64_t positions = by_position.shape(1);
    const Tensor label =
        slice(Tensor::from(std::vector<std::int64_t>{2, 0, 0, 1}, {1, 4}), {0, 0}, {1, positions});
    expect_accuracy(accuracies(transpose(by_position, {0, 2, 1}).contiguous(), label.contiguous(),
                               nn::SoftmaxCrossEntropyLoss({.axis = 1})),
                    positions == 4 ? 0.75 : 2.0 / 3.0);
  }
}

TEST(Accuracy, OfTwoClassesComesFromTheSide) {
  const Tensor logits = Tensor::from(Floats{2, -1, 0.3F, -4}, {4});
  const Tensor binary = Tensor::from(Floats{1, 0, 0, 0}, {4});
  const Tensor signs = binary * 2.0 - 1.0;
  expect_accuracy(accuracies(logits, binary, nn::SigmoidBinaryCrossEntropyLoss()), 0.75);
  expect_accuracy(accuracies(sigmoid(logits), binary, nn::SigmoidBinaryCrossEntropyLoss(true)),
                  0.75);
  expect_accuracy(accuracies(logits, binary, nn::LogisticLoss(nn::LabelFormat::binary)), 0.75);
  expect_accuracy(accuracies(logits, signs, nn::LogisticLoss()), 0.75);
  expect_accuracy(accuracies(logits, signs, nn::HingeLoss()), 0.75);
  expect_accuracy(accuracies(logits, signs, nn::SquaredHingeLoss()), 0.75);
}

TEST(Accuracy, LossesWithoutClassesHaveNone) {
  const Tensor x = scores();
  expect_none(accuracies(x, x * 0.5, nn::L1Loss()));
  expect_none(accuracies(x, x * 0.5, nn::L2Loss()));
  expect_none(accuracies(x, x * 0.5, nn::HuberLoss()));
  expect_none(accuracies(x, exp(x), nn::PoissonNLLLoss()));
  expect_none(accuracies(log_softmax(x), softmax(x), nn::KLDivLoss()));
  // [N, T, C] and [N, L]: more time steps than labels, or as many.
  for (const std::int64_t steps : {5, 2})
    expect_none(accuracies(ones({2, steps, 4}),
                           Tensor::from(std::vector<std::int64_t>{0, 1, 2, 0}, {2, 2}),
                           nn::CTCLoss()));
}

TEST(Accuracy, OfAnyOtherFunctionIsForTheUserToTell) {
  const Tensor label = Tensor::from(std::vector<std::int64_t>{2, 0, 0, 1}, {4});
  const auto plain = [](const Tensor& output, const Tensor& target) {
    return softmax_cross_entropy(output, target);
  };
  expect_none(accuracies(scores(), label, plain));
  const LossFunction told(plain, [](const Tensor& output, const Tensor& target) {
    return nn::Classes{argmax(output, -1), target};
  });
  expect_accuracy(accuracies(scores(), label, told), 0.75);
  expect_none(accuracies(scores(), label, told, false));
  expect_none(accuracies(scores(), label, nn::SoftmaxCrossEntropyLoss(), false));
  const LossFunction wrong(plain, [](const Tensor& output, const Tensor& target) {
    return nn::Classes{argmax(output, 0), target};
  });
  EXPECT_EQ(message_of([&] { accuracies(scores(), label, wrong); }),
            "accuracy: predicted classes have shape [3], the expected ones [4]");
}

}  // namespace
}  // namespace lockstep::train
