// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/executable.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/ctc.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"
#include "tests/message.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using nn::Loss;
using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;
using Function = std::function<Tensor(const Tensor& output, const Tensor& label)>;

Tensor shaped_doubles(const Values& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

void expect_values(const Tensor& got, const Values& want, double tolerance = 1e-9) {
  const Values values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], tolerance) << i;
}

// One value a sample: the mean of f over the sample's elements.
Values naive(const Tensor& p, const Tensor& t, double (*f)(double p, double t)) {
  const Values x = p.to_vector<double>(), y = t.to_vector<double>();
  const auto samples = static_cast<std::size_t>(p.shape(0));
  const std::size_t each = x.size() / samples;
  Values result(samples);
  for (std::size_t i = 0; i < x.size(); ++i)
    result[i / each] += f(x[i], y[i]) / static_cast<double>(each);
  return result;
}

void expect_gradient(const Function& loss, const Tensor& x, const Tensor& label) {
  autograd::attach_grad(x);
  Tensor total;
  {
    autograd::RecordScope record;
    total = sum(loss(x, label));
  }
  autograd::backward(total);
  const Values got = autograd::gradient(x).to_vector<double>(), at = x.to_vector<double>();
  for (std::size_t i = 0; i < at.size(); ++i) {
    Values up = at, down = at;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    const double rise = sum(loss(shaped_doubles(up, x.shape()), label)).item() -
                        sum(loss(shaped_doubles(down, x.shape()), label)).item();
    EXPECT_NEAR(got[i], rise / 2e-5, 1e-7) << "element " << i;
  }
}

void expect_loss(const Function& loss, const Tensor& p, const Tensor& t,
                 double (*f)(double p, double t)) {
  expect_values(loss(p, t), naive(p, t, f));
  expect_gradient(loss, p, t);
}

Tensor signs(const Shape& shape, std::uint64_t seed) {
  return cast(random_indices(shape, seed, 0, 2) * 2.0 - 1.0, DType::float64);
}

double hinge(double p, double t) { return std::max(0.0, 1.0 - p * t); }

TEST(Loss, OfSingleElementsIsAveragedOverASample) {
  const Tensor p = random_tensor({3, 2, 4}, 1, -3.0, 3.0), t = random_tensor({3, 2, 4}, 2);
  const Tensor chance = random_tensor({3, 2, 4}, 3, 0.05, 0.95);
  const Tensor likely = random_tensor({3, 2, 4}, 5, 0.05, 0.95);
  const Tensor sign = signs({3, 2, 4}, 4);
  expect_loss(nn::L1Loss(), p, t, [](double p, double t) { return std::abs(p - t); });
  expect_loss(nn::L2Loss(), p, t, [](double p, double t) { return (p - t) * (p - t) / 2; });
  expect_loss(nn::HuberLoss(0.7), p, t, [](double p, double t) {
    const double d = std::abs(p - t);
    return d > 0.7 ? d - 0.35 : d * d / 1.4;
  });
  expect_loss(nn::SigmoidBinaryCrossEntropyLoss(), p, chance, [](double p, double t) {
    const double y = 1 / (1 + std::exp(-p));
    return -t * std::log(y) - (1 - t) * std::log(1 - y);
  });
  expect_loss(nn::SigmoidBinaryCrossEntropyLoss(true), likely, chance,
              [](double p, double t) { return -t * std::log(p) - (1 - t) * std::log(1 - p); });
  expect_loss(nn::KLDivLoss(), p, chance, [](double p, double t) { return t * (std::log(t) - p); });
  expect_loss(nn::HingeLoss(), p, sign, hinge);
  expect_loss(nn::SquaredHingeLoss(), p, sign,
              [](double p, double t) { return hinge(p, t) * hinge(p, t); });
  expect_loss(nn::LogisticLoss(), p, sign,
              [](double p, double t) { return std::log1p(std::exp(-p * t)); });
  expect_loss(nn::LogisticLoss(nn::LabelFormat::binary), p, (sign + 1.0) * 0.5,
              [](double p, double t) { return std::log1p(std::exp(t > 0.5 ? -p : p)); });
  expect_loss(nn::PoissonNLLLoss(), p, chance,
              [](double p, double t) { return std::exp(p) - t * p; });
  expect_loss(nn::PoissonNLLLoss({.from_logits = false, .epsilon = 0.0}), likely, chance,
              [](double p, double t) { return p - t * std::log(p); });
}

TEST(Loss, PoissonAddsStirlingsTermFromTwoOn) {
  const Tensor p = random_tensor({1, 3}, 1), t = shaped_doubles({0, 1, 5}, {1, 3});
  const double full = nn::PoissonNLLLoss({.compute_full = true})(p, t).item();
  const double stirling = 5 * std::log(5.0) - 5 + std::log(10 * std::numbers::pi) / 2;
  EXPECT_NEAR(full - nn::PoissonNLLLoss()(p, t).item(), stirling / 3, 1e-9);
}

TEST(Loss, KLDivTakesScoresToo) {
  const Tensor p = random_tensor({3, 5}, 1), t = softmax(random_tensor({3, 5}, 2));
  expect_values(nn::KLDivLoss(false)(p, t), nn::KLDivLoss()(log_softmax(p), t).to_vector<double>());
  expect_gradient(nn::KLDivLoss(false), p, t);
}

TEST(Loss, WeightsAndSampleWeightsMultiply) {
  const Tensor p = shaped_doubles({1, 2, 3, 4}, {2, 2}), t = zeros({2, 2});
  expect_values(nn::L1Loss(2.0)(p, t), {3, 7});
  expect_values(nn::L1Loss()(p, t, shaped_doubles({0, 10}, {2, 1})), {0, 35});
  expect_values(
      nn::L1Loss()(shaped_doubles({1, 2}, {2}), zeros({2, 1}), Tensor::from(Labels{3, 4}, {2})),
      {3, 8});
}

TEST(Loss, AWeightForEachSampleIsThatOfAllItsElements) {
  const Tensor w = shaped_doubles({1, 2, 3}, {3});
  expect_values(nn::L1Loss()(shaped_doubles({1, 2, 3}, {3, 1}), zeros({3, 1}), w), {1, 4, 9});
  const Tensor square = shaped_doubles({1, 3, 5, 2, 2, 2, 0, 3, 0}, {3, 3});
  expect_values(nn::L1Loss()(square, zeros({3, 3}), w), {3, 4, 3});
  expect_values(
      nn::L1Loss()(shaped_doubles({1, 2, 3}, {3}), zeros({3}), shaped_doubles({1, 2, 3}, {3, 1})),
      {1, 4, 9});
  expect_values(nn::L1Loss()(square, zeros({3, 3}), square), {35.0 / 3, 4, 3});
  EXPECT_EQ(message_of([&] {
              nn::L1Loss()(square, zeros({3, 3}), shaped_doubles({1, 2}, {2}));
            }),
            "L1Loss: the sample weight has shape [2], the losses [3, 3]: expected one for each "
            "sample or for each loss");
}

TEST(Loss, LabelsTakeThePredictionsShapeAndDtype) {
  expect_values(nn::L2Loss()(shaped_doubles({1, 2}, {2, 1}), Tensor::from(Labels{0, 4}, {2})),
                {0.5, 2});
  EXPECT_EQ(message_of([] {
              nn::L2Loss()(zeros({2, 3}), zeros({2}));
            }),
            "L2Loss: label has shape [2], expected [2, 3] as the prediction");
  EXPECT_EQ(message_of([] {
              nn::HuberLoss()(zeros({2, 3}), {});
            }),
            "HuberLoss: the label is undefined");
  EXPECT_EQ(message_of([] { nn::HuberLoss(0.0); }), "HuberLoss: rho is 0, expected more than 0");
}

// -sum(target * log_softmax) of rows that lie `stride` apart.
double row_loss(const Values& x, std::size_t first, std::size_t stride, const Values& target) {
  double sum = 0.0, loss = 0.0;
  for (std::size_t c = 0; c < target.size(); ++c) sum += std::exp(x[first + c * stride]);
  for (std::size_t c = 0; c < target.size(); ++c)
    loss -= target[c] * (x[first + c * stride] - std::log(sum));
  return loss;
}

TEST(Loss, SoftmaxCrossEntropyOfClassNumbersAndOfProbabilities) {
  const Tensor x = random_tensor({2, 3}, 1, -2.0, 2.0);
  const Values values = x.to_vector<double>();
  const Tensor classes = Tensor::from(Labels{2, 0}, {2});
  const Tensor dense = shaped_doubles({0.2, 0.3, 0.5, 0.1, 0.9, 0}, {2, 3});
  const nn::SoftmaxCrossEntropyLoss loss;
  const Values sparse{row_loss(values, 0, 1, {0, 0, 1}), row_loss(values, 3, 1, {1, 0, 0})};
  expect_values(loss(x, classes), sparse);
  expect_values(loss(x, shaped_doubles({2, 0}, {2})), sparse);
  expect_values(loss(x, Tensor::from(Labels{2, 0}, {2, 1})), sparse);
  expect_values(loss(x, dense),
                {row_loss(values, 0, 1, {0.2, 0.3, 0.5}), row_loss(values, 3, 1, {0.1, 0.9, 0})});
  expect_gradient(loss, x, classes);
  expect_gradient(loss, x, dense);
}

TEST(Loss, SoftmaxCrossEntropyFromLogProbabilitiesIsTheSame) {
  const Tensor x = random_tensor({4, 5}, 1, -2.0, 2.0), logs = log_softmax(x);
  const Tensor classes = random_indices({4}, 2, 0, 5), dense = softmax(random_tensor({4, 5}, 3));
  for (double smoothing : {0.0, 0.2})
    for (const Tensor& label : {classes, dense}) {
      const nn::SoftmaxCrossEntropyLoss a({.smoothing = smoothing});
      const nn::SoftmaxCrossEntropyLoss b({.from_logits = true, .smoothing = smoothing});
      expect_values(b(logs, label), a(x, label).to_vector<double>());
      expect_gradient(b, logs, label);
    }
}

TEST(Loss, SoftmaxCrossEntropyAlongAnotherAxis) {
  const Tensor x = random_tensor({2, 3, 4}, 1, -2.0, 2.0);
  const Tensor labels = random_indices({2, 4}, 2, 0, 3);
  const nn::SoftmaxCrossEntropyLoss loss({.axis = 1}), last;
  const Tensor moved = transpose(x, {0, 2, 1});
  expect_values(loss(x, labels), last(moved, labels).to_vector<double>());
  const Tensor dense = softmax(random_tensor({2, 3, 4}, 3), 1);
  expect_values(loss(x, dense), last(moved, transpose(dense, {0, 2, 1})).to_vector<double>());
  expect_gradient(loss, x, labels);
}

TEST(Loss, SoftmaxCrossEntropyNamesWhatDoesNotFit) {
  const nn::SoftmaxCrossEntropyLoss loss;
  EXPECT_EQ(message_of([&] {
              loss(zeros({2, 3}), zeros({4}));
            }),
            "SoftmaxCrossEntropyLoss: label has shape [4], expected [2] for a prediction of shape "
            "[2, 3]");
  EXPECT_EQ(message_of([] {
              nn::SoftmaxCrossEntropyLoss({.axis = 2})(zeros({2, 3}), zeros({2}));
            }),
            "SoftmaxCrossEntropyLoss: axis is 2, the prediction has shape [2, 3]");
  EXPECT_EQ(message_of([] { nn::SoftmaxCrossEntropyLoss({.smoothing = 2.0}); }),
            "SoftmaxCrossEntropyLoss: smoothing is 2, expected 0 to 1");
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan(""), -1.0})
    EXPECT_EQ(message_of([&] {
                nn::SoftmaxCrossEntropyLoss({.class_weights = {1.0, bad}});
              }),
              fmt::format("SoftmaxCrossEntropyLoss: a class weight is {}, expected 0 or more, and "
                          "finite",
                          bad));
}

TEST(Loss, LabelsOfAnotherShapeAreNotReadAsIfTheyHadTheRightOne) {
  EXPECT_EQ(message_of([] {
              nn::L2Loss()(zeros({2, 3, 4}), zeros({2, 4, 3}));
            }),
            "L2Loss: label has shape [2, 4, 3], expected [2, 3, 4] as the prediction");
  EXPECT_EQ(message_of([] {
              nn::SoftmaxCrossEntropyLoss({.axis = 1})(zeros({2, 3, 4, 6}), zeros({2, 6, 4}));
            }),
            "SoftmaxCrossEntropyLoss: label has shape [2, 6, 4], expected [2, 4, 6] for a "
            "prediction of shape [2, 3, 4, 6]");
  expect_values(nn::L2Loss()(ones({2, 1, 3}), zeros({2, 3, 1})), {0.5, 0.5});
  EXPECT_EQ(nn::SoftmaxCrossEntropyLoss({.axis = 1})(zeros({2, 3, 4}), zeros({2, 1, 4})).shape(),
            Shape{2});
}

TEST(Loss, FloatsThatAreNoClassNumberAreRefused) {
  for (const double bad : {std::nan(""), 1.5, std::numeric_limits<double>::infinity()})
    for (const nn::SoftmaxCrossEntropyOptions& options :
         {nn::SoftmaxCrossEntropyOptions{}, nn::SoftmaxCrossEntropyOptions{.ignore_label = 0},
          nn::SoftmaxCrossEntropyOptions{.class_weights = {1, 2, 3}}})
      EXPECT_EQ(message_of([&] {
                  const nn::SoftmaxCrossEntropyLoss loss(options);
                  loss(zeros({2, 3}), shaped_doubles({0, bad}, {2}));
                }),
                fmt::format("class_numbers: label {} of row 1 is no class number", bad));
  EXPECT_EQ(message_of([] {
              nn::CTCLoss()(zeros({1, 4, 3}), shaped_doubles({1, 0.5}, {1, 2}));
            }),
            "class_numbers: label 0.5 of row 1 is no class number");
}

TEST(Loss, TripletWantsThePositiveNearer) {
  const Tensor anchor = shaped_doubles({0, 0, 0, 0}, {2, 2}),
               positive = shaped_doubles({1, 0, 1, 1}, {2, 2});
  const Tensor negative = shaped_doubles({0, 3, 1, 0}, {2, 2});
  const nn::TripletLoss loss;
  expect_values(loss(anchor, positive, negative), {0, 2});
  expect_gradient([&](const Tensor& x, const Tensor& y) { return loss(x, y, negative); },
                  random_tensor({2, 2}, 1), positive);
}

TEST(Loss, CosineEmbeddingPullsTogetherAndPushesApart) {
  const Tensor a = shaped_doubles({1, 0, 1, 1, 0, 0}, {3, 2}),
               b = shaped_doubles({0, 2, 3, 3, 1, 1}, {3, 2});
  const nn::CosineEmbeddingLoss loss(0.25);
  expect_values(loss(a, b, Tensor::from(Labels{1, -1, 1}, {3})), {1, 0.75, 1});
  const Tensor sign = signs({4}, 5);
  expect_gradient([&](const Tensor& x, const Tensor& y) { return loss(x, y, sign); },
                  random_tensor({4, 3}, 1), random_tensor({4, 3}, 2));
}

TEST(Loss, CosineEmbeddingIsFiniteForVectorsOfAnyLength) {
  for (const float length : {1e-20F, 1e-19F, 1e-13F, 1e-8F, 1.0F, 1e15F}) {
    const Tensor a = Tensor::from(std::vector<float>{length, 0}, {1, 2});
    const Tensor b = Tensor::from(std::vector<float>{length, length}, {1, 2});
    autograd::attach_grad(a);
    Tensor loss;
    {
      autograd::RecordScope record;
      loss = nn::CosineEmbeddingLoss()(a, b, Tensor::from(Labels{1}, {1}));
      autograd::backward(sum(loss));
    }
    EXPECT_TRUE(std::isfinite(loss.item())) << length;
    for (const float value : autograd::gradient(a).to_vector<float>())
      EXPECT_TRUE(std::isfinite(value)) << length;
  }
}

TEST(Loss, KLDivOfWhatIsNoProbabilityIsNotANumber) {
  const Tensor t = Tensor::from(std::vector<float>{-0.5F, 1}, {1, 2});
  const Tensor loss = nn::KLDivLoss()(Tensor::zeros({1, 2}), t);
  EXPECT_TRUE(std::isnan(loss.item()));
}

TEST(Loss, CTCReadsBothLayoutsAndBothBlanks) {
  const Tensor x = random_tensor({2, 6, 4}, 1);  // N, T, C
  const Tensor steps = transpose(x, {1, 0, 2});
  const Tensor labels = Tensor::from(Labels{1, 2, 2, -1}, {2, 2});
  const nn::CTCLoss last, first({.blank = nn::BlankLabel::first});
  const nn::CTCLoss time_first({.layout = nn::SequenceLayout::TNC, .weight = 2.0});
  expect_values(last(x, labels), ctc_loss(steps, labels, 3).to_vector<double>());
  expect_values(first(x, labels), ctc_loss(steps, labels, 0).to_vector<double>());
  expect_values(time_first(steps, labels), (last(x, labels) * 2.0).to_vector<double>());
  expect_gradient(last, x, labels);
}

TEST(Loss, CTCTakesLengths) {
  const Tensor x = random_tensor({2, 6, 4}, 1);
  const Tensor lengths = Tensor::from(Labels{6, 3}, {2}), counts = Tensor::from(Labels{2, 1}, {2});
  const Tensor labels = Tensor::from(Labels{1, 2, 2, 0}, {2, 2});
  const Tensor alone = slice(x, {1, 0}, {2, 3});
  const Tensor got = nn::CTCLoss().with_lengths(x, labels, lengths, counts);
  EXPECT_NEAR(got.to_vector<double>()[1],
              nn::CTCLoss()(alone, Tensor::from(Labels{2}, {1, 1})).item(), 1e-9);
  EXPECT_EQ(message_of([] {
              nn::CTCLoss()(zeros({2, 3}), zeros({2}));
            }),
            "CTCLoss: prediction has shape [2, 3], expected [N, T, C]");
}

TEST(Loss, IsFiniteInHalfPrecisionAtTheEndsOfTheRange) {
  const Function losses[] = {
      nn::SigmoidBinaryCrossEntropyLoss(true),
      nn::KLDivLoss(),
      nn::KLDivLoss(false),
      nn::PoissonNLLLoss({.from_logits = false}),
      [](const Tensor& x, const Tensor& t) {
        return nn::CosineEmbeddingLoss()(x, ones_like(x), slice_axis(t, 1, 0, 1));
      },
      [](const Tensor& x, const Tensor& t) {
        return nn::CosineEmbeddingLoss()(x * 300.0, ones_like(x) * 300.0, slice_axis(t, 1, 0, 1));
      }};
  for (const Function& loss : losses)
    for (DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
      const Tensor x = cast(shaped_doubles({0, 0, 0, 1, 1, 0.5}, {3, 2}), dtype);
      const Tensor t = cast(shaped_doubles({0, 1, 1, 0, 1, 0.5}, {3, 2}), dtype);
      autograd::attach_grad(x);
      Tensor value;
      {
        autograd::RecordScope record;
        value = loss(x, t);
        autograd::backward(sum(value));
      }
      for (const Tensor& got : {value, autograd::gradient(x)})
        for (double number : cast(got, DType::float64).to_vector<double>())
          EXPECT_TRUE(std::isfinite(number)) << name_of(dtype) << " " << &loss - losses;
    }
}

TEST(Loss, AVectorOfZerosHasNoDirection) {
  const Tensor a = Tensor::zeros({1, 3}), b = Tensor::from(std::vector<float>{1, 2, 3}, {1, 3});
  const Tensor alike = ones({1});
  autograd::attach_grad(a);
  Tensor loss;
  {
    autograd::RecordScope record;
    loss = nn::CosineEmbeddingLoss()(a, b, alike);
    autograd::backward(sum(loss));
  }
  EXPECT_EQ(loss.item(), 1.0);
  expect_values(autograd::gradient(a), {0, 0, 0});
}

TEST(Loss, CanBeTraced) {
  const Function loss = nn::SoftmaxCrossEntropyLoss();
  const Tensor x = random_tensor({4, 3, 5}, 1), labels = random_indices({4, 3}, 2, 0, 5);
  const Graph graph =
      trace([&](const std::vector<Tensor>& in) { return std::vector{loss(in[0], in[1])}; },
            {x.info(), labels.info()});
  const std::vector<Tensor> inputs{x, labels};
  expect_values(interpret(graph, inputs)[0], loss(x, labels).to_vector<double>());
}

}  // namespace
}  // namespace lockstep::testing
