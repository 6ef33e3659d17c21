// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/data/loader.h"
#include "tests/message.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::cross_entropy;
using testing::kClasses;
using testing::message_of;
using testing::small_images;
using testing::small_net;

nn::BlockPtr ready_net() {
  nn::BlockPtr net = small_net();
  net->initialize(nn::init::fan_in(), 3);
  net->complete_shapes({{{1, 1, 8, 8}, DType::float32, {}}});
  return net;
}

// One sample at a time, op by op.
Evaluation naive(nn::Block& net, const data::Dataset& dataset) {
  Evaluation result;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int64_t index[] = {i};
    const data::Fields fields = data::load_batch(dataset, index, data::to_tensor());
    const Tensor output = net(fields[0]);
    result.loss += mean(cross_entropy()(output, fields[1])).item();
    result.predictions.push_back(static_cast<std::int64_t>(argmax(output, -1).item()));
    result.labels.push_back(static_cast<std::int64_t>(fields[1].item()));
    result.accuracy += result.predictions.back() == result.labels.back() ? 1.0 : 0.0;
  }
  result.loss /= static_cast<double>(dataset.size());
  result.accuracy /= static_cast<double>(dataset.size());
  return result;
}

TEST(Evaluate, EqualsALoopOverTheSamples) {
  const nn::BlockPtr net = ready_net();
  const auto images = small_images(41);
  const Evaluation expected = naive(*net, *images);
  const Evaluation got =
      Evaluator(net, cross_entropy())
          .run(*images, {.batch = 8, .transform = data::to_tensor(), .keep_predictions = true});
  EXPECT_EQ(got.samples, 41);
  EXPECT_TRUE(got.has_accuracy);
  EXPECT_NEAR(got.loss, expected.loss, 1e-5);
  EXPECT_DOUBLE_EQ(got.accuracy, expected.accuracy);
  EXPECT_EQ(got.predictions, expected.predictions);
  EXPECT_EQ(got.labels, expected.labels);
}

TEST(Evaluate, IsTheSameForAnyNumberOfThreads) {
  Evaluator evaluator(ready_net(), cross_entropy());
  const auto images = small_images(101);
  EvaluateOptions options{.batch = 4, .transform = data::to_tensor(), .keep_predictions = true};
  const Evaluation one = evaluator.run(*images, options);
  for (int threads : {2, 3, 8, 1000000}) {  // no more are started than there are batches
    options.threads = threads;
    const Evaluation many = evaluator.run(*images, options);
    EXPECT_EQ(many.loss, one.loss);
    EXPECT_EQ(many.predictions, one.predictions);
  }
}

TEST(Evaluate, GivesBatchesInOrder) {
  std::vector<std::int64_t> labels;
  EvaluateOptions options{.batch = 4, .threads = 3, .transform = data::to_tensor()};
  options.keep_predictions = true;
  options.on_batch = [&](const Tensor& output, const Tensor& label) {
    EXPECT_EQ(output.shape(0), label.shape(0));
    for (std::int64_t value : label.to_vector<std::int64_t>()) labels.push_back(value);
  };
  const auto images = small_images(50);
  EXPECT_EQ(Evaluator(ready_net(), cross_entropy()).run(*images, options).labels, labels);
}

TEST(Evaluate, FeedsMetricsFromTheirBeginning) {
  const nn::BlockPtr net = ready_net();
  Evaluator evaluator(net, cross_entropy());
  EvaluateOptions options{.batch = 4, .threads = 3, .transform = data::to_tensor()};
  options.metrics = {std::make_shared<nn::Accuracy>(), std::make_shared<nn::TopKAccuracy>(2)};
  const auto images = small_images(50);
  for (int i = 0; i < 2; ++i) {
    const Evaluation got = evaluator.run(*images, options);
    ASSERT_EQ(got.metrics.size(), 2U);
    EXPECT_EQ(got.metrics[0].first, "accuracy");
    EXPECT_DOUBLE_EQ(got.metrics[0].second, got.accuracy);
    EXPECT_GT(got.metrics[1].second, got.accuracy);
  }
}

TEST(Evaluate, TakesTheParametersThatTheNetHasNow) {
  const nn::BlockPtr net = ready_net();
  Evaluator evaluator(net, cross_entropy());
  const auto images = small_images(20);
  const EvaluateOptions options{.batch = 8, .transform = data::to_tensor()};
  const double before = evaluator.run(*images, options).loss;
  net->initialize(nn::init::fan_in(), 4, true);
  const double after = evaluator.run(*images, options).loss;
  EXPECT_NE(before, after);
  EXPECT_EQ(after, Evaluator(net, cross_entropy()).run(*images, options).loss);
}

TEST(Evaluate, ASetSmallerThanABatchIsOneBatch) {
  const nn::BlockPtr net = ready_net();
  const auto images = small_images(3);
  const Evaluation got =
      Evaluator(net, cross_entropy()).run(*images, {.threads = 4, .transform = data::to_tensor()});
  EXPECT_EQ(got.samples, 3);
  EXPECT_NEAR(got.loss, naive(*net, *images).loss, 1e-5);
}

TEST(Evaluate, LabelsThatAreNoClassesHaveNoAccuracy) {
  const nn::BlockPtr net = nn::sequential(nn::dense(2));
  net->initialize();
  const auto points = std::make_shared<data::ArrayDataset>(
      data::Fields{Tensor::full({10, 3}, 1.0), Tensor::full({10, 2}, 2.0)});
  const Evaluation got = Evaluator(net, [](const Tensor& p, const Tensor& t) {
                           return nn::L2Loss()(p, t);
                         }).run(*points);
  EXPECT_FALSE(got.has_accuracy);
  EXPECT_GT(got.loss, 0.0);
}

TEST(Evaluate, ANetOfNaNHasALossOfNaN) {
  const nn::BlockPtr plain = nn::sequential(nn::conv2d(6, {3, 3}), nn::relu(), nn::dense(kClasses));
  const nn::BlockPtr wide = nn::sequential(nn::dense(16), nn::relu(), nn::dense(kClasses));
  for (const nn::BlockPtr& net : {small_net(), plain, wide}) {
    net->initialize(nn::init::fan_in(), 3);
    net->complete_shapes({{{1, 1, 8, 8}, DType::float32, {}}});
    const nn::Parameter first = net->parameters().front().parameter;
    first.set_data(Tensor::full(first.data().shape(), std::nan("")));
    EXPECT_TRUE(std::isnan(Evaluator(net, cross_entropy())
                               .run(*small_images(9), {.transform = data::to_tensor()})
                               .loss));
  }
}

TEST(Evaluate, SaysWhatItCannotDo) {
  Evaluator evaluator(ready_net(), cross_entropy());
  const auto images = small_images(3);
  EXPECT_EQ(message_of([&] { evaluator.run(*images, {.batch = -1}); }),
            "evaluate: batch is -1, expected 1 or more");
  EXPECT_EQ(message_of([&] { evaluator.run(*images, {.threads = 0}); }),
            "evaluate: threads is 0, expected 1 or more");
  EXPECT_EQ(message_of([&] { evaluator.run(*small_images(0)); }),
            "evaluate: the data set is empty");
}

}  // namespace
}  // namespace lockstep::train
