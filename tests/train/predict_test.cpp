// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/predict.h"

#include <gtest/gtest.h>

#include "lockstep/data/subset.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/metric.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of, testing::set_of;

PredictOptions predict_options(int threads) {
  return {.batch = 8, .threads = threads, .transform = data::to_tensor()};
}

// Two inputs, two outputs.
class TwoOutputs final : public nn::Block {
 public:
  TwoOutputs() : layer_(add_child("layer", nn::sequential(nn::dense(3), nn::dropout(0.5)))) {}
  std::vector<Tensor> forward_all(const std::vector<Tensor>& x) override {
    return {(*layer_)(x.at(0)), x.at(1) * 2.0};
  }

 private:
  nn::BlockPtr layer_;
};

TEST(Predict, GivesEverySamplesOutputInOrderOnAnyNumberOfThreads) {
  Trainer trainer = testing::small_trainer(testing::small_net());
  trainer.fit(testing::small_images(100), testing::small_fit(1));
  const data::DatasetPtr dataset = testing::small_images(41, 6);
  const Tensor outputs = trainer.predict(dataset, predict_options(1));
  EXPECT_EQ(outputs.info().str(), "float32[41, 4]");
  EXPECT_EQ(trainer.predict(dataset, predict_options(3)).to_vector<float>(),
            outputs.to_vector<float>());

  std::vector<float> expected;
  trainer.evaluate(*dataset, {.batch = 8,
                              .transform = data::to_tensor(),
                              .on_batch = [&](const Tensor& output, const Tensor&) {
                                const auto values = output.to_vector<float>();
                                expected.insert(expected.end(), values.begin(), values.end());
                              }});
  EXPECT_EQ(outputs.to_vector<float>(), expected);
}

TEST(Predict, NeedsNoLabels) {
  Trainer trainer = testing::small_trainer(testing::small_net());
  trainer.fit(testing::small_images(100), testing::small_fit(1));
  const auto labelled =
      std::dynamic_pointer_cast<const data::ArrayDataset>(testing::small_images(20, 6));
  const auto bare = std::make_shared<data::ArrayDataset>(data::Fields{labelled->arrays().front()});
  EXPECT_EQ(trainer.predict(bare, predict_options(2)).to_vector<float>(),
            trainer.predict(labelled, predict_options(2)).to_vector<float>());
}

TEST(Predict, GivesEveryOutputOfNetsWithSeveralFields) {
  const auto net = std::make_shared<TwoOutputs>();
  net->initialize();
  const RandomScope draws(random_key(4));
  const Tensor a = normal({11, 4}), b = normal({11, 2}), t = normal({11});
  Predictor predictor(net, {}, {input("a"), label("t"), input("b")});
  const auto got = predictor.run(set_of({a, t, b}), {.batch = 4, .threads = 2});
  ASSERT_EQ(got.size(), 2U);
  const auto expected = (*net)(std::vector<Tensor>{a, b});
  EXPECT_EQ(got[0].to_vector<float>(), expected[0].to_vector<float>());
  EXPECT_EQ(got[1].to_vector<float>(), expected[1].to_vector<float>());
  // Samples without their labels.
  const auto unlabelled = predictor.run(set_of({a, b}), {.batch = 11});
  EXPECT_EQ(unlabelled[1].to_vector<float>(), expected[1].to_vector<float>());
}

TEST(Predict, RefusesFieldsThatNothingIsSaidOf) {
  const auto net = nn::sequential(nn::dense(3));
  net->initialize();
  const Tensor x = ones({4, 2});
  EXPECT_EQ(message_of([&] {
              Predictor(net).run(set_of({x, x, x}));
            }),
            "fields: a sample has 3, and nothing says which are inputs and which are labels: set "
            "fields, such as {input(\"x\"), label(\"y\")}");
}

TEST(Predict, RefusesOutputsThatAreNotOneForEachSample) {
  const auto parts = nn::lambda([](const Tensor& x) { return reshape(x, {-1, 2}); });
  EXPECT_EQ(message_of([&] {
              Predictor(parts).run(set_of({ones({8, 6})}), {.batch = 4});
            }),
            "predict: output 0 is float32[12, 2], the batch has 4 samples");
  const auto together = nn::lambda([](const Tensor& x) { return sum(x, {0}, true); });
  EXPECT_EQ(message_of([&] {
              Predictor(together).run(set_of({ones({8, 6})}), {.batch = 4});
            }),
            "predict: output 0 is float32[1, 6], the batch has 4 samples");
}

TEST(Predict, TransformsImagesTogetherWithTheirMasks) {
  const auto net = nn::lambda([](const Tensor& x) { return x * 2.0; });
  const Tensor masks = zeros({5, 6, 6}, DType::uint8);
  const RandomScope draws(random_key(4));
  const Tensor images = uniform({5, 6, 6, 3}, 0.0, 255.0);
  const auto transform = data::joint(data::center_crop(4, 4), data::to_tensor());
  const auto got =
      Predictor(net).run(set_of({images, masks}), {.batch = 2, .transform = transform});
  const auto expected = Predictor(net).run(
      set_of({images}), {.transform = data::compose({data::center_crop(4, 4), data::to_tensor()})});
  EXPECT_EQ(got.at(0).info().str(), "float32[5, 3, 4, 4]");
  EXPECT_EQ(got[0].to_vector<float>(), expected.at(0).to_vector<float>());
}

TEST(Predict, FollowsTheNetsParameters) {
  Trainer trainer = testing::small_trainer(testing::small_net());
  const data::DatasetPtr dataset = testing::small_images(10, 6);
  trainer.fit(testing::small_images(100), testing::small_fit(1));
  const auto before = trainer.predict(dataset, predict_options(1)).to_vector<float>();
  trainer.fit(testing::small_images(100), testing::small_fit(1));
  EXPECT_NE(trainer.predict(dataset, predict_options(1)).to_vector<float>(), before);
}

TEST(Predict, RefusesAnEmptySet) {
  Trainer trainer = testing::small_trainer(testing::small_net());
  EXPECT_EQ(message_of([&] { trainer.predict(data::slice(testing::small_images(5), 0, 0)); }),
            "predict: there are no samples");
}

TEST(TrainMetrics, AreThoseOfTheTrainingSetInPredictMode) {
  FitOptions fit = testing::small_fit(2);
  fit.train_metrics = {std::make_shared<nn::TopKAccuracy>(2)};
  fit.train_metric_samples = 30;
  Trainer trainer = testing::small_trainer(testing::small_net());
  const data::DatasetPtr dataset = testing::small_images(100);
  const FitResult result = trainer.fit(dataset, fit);
  const auto metric = std::make_shared<nn::TopKAccuracy>(2);
  const Evaluation expected =
      trainer.evaluate(*data::slice(dataset, 0, 30),
                       {.batch = 8, .transform = data::to_tensor(), .metrics = {metric}});
  ASSERT_EQ(result.history.size(), 2u);
  EXPECT_EQ(result.history[1].metric("train_" + metric->name()), expected.metrics[0].second);
}

FitOptions rates_on_plateau(const std::string& folder, std::vector<double>& rates) {
  FitOptions fit = testing::small_fit();
  fit.steps = 20;
  fit.evaluate_every = 1;
  fit.checkpoint_every = 1;
  fit.checkpoints = folder;
  // Nothing is ever better by so much: the rate falls every third evaluation after the first.
  fit.schedule = optim::reduce_on_plateau(
      {.metric = "loss", .factor = 0.5, .patience = 3, .min_delta = 1e6, .min_rate = 0.01},
      optim::constant(0.08));
  fit.callbacks = {
      on_step([&](FitContext&, const StepEvent& event) { rates.push_back(event.learning_rate); })};
  return fit;
}

TEST(ReduceOnPlateau, LowersTheRateAfterEvaluationsThatGotNoBetter) {
  const testing::TemporaryFolder folder("plateau");
  std::vector<double> rates;
  testing::run_small(rates_on_plateau(folder.path(), rates));
  ASSERT_EQ(rates.size(), 20u);
  EXPECT_EQ(rates[3], 0.08);
  EXPECT_EQ(rates[4], 0.04);
  EXPECT_EQ(rates[7], 0.02);
  EXPECT_EQ(rates[10], 0.01);
  EXPECT_EQ(rates[19], 0.01);  // not below
}

TEST(ReduceOnPlateau, AResumedRunHasTheRatesOfTheWholeOne) {
  const testing::TemporaryFolder folder("plateau_resume");
  std::vector<double> whole, cut;
  const FitResult expected = testing::run_small(rates_on_plateau(folder.path() + "/whole", whole));
  std::atomic<bool> stop = false;
  FitOptions first = rates_on_plateau(folder.path() + "/cut", cut);
  first.stop = &stop;
  first.callbacks.push_back(
      on_step([&](FitContext&, const StepEvent& event) { stop = event.step == 8; }));
  testing::run_small(first);
  FitOptions second = rates_on_plateau(folder.path() + "/cut", cut);
  second.resume = true;
  EXPECT_EQ(testing::run_small(second).params_sha256, expected.params_sha256);
  EXPECT_EQ(cut, whole);
}

TEST(ReduceOnPlateau, AMetricThatNobodyComputesIsNamed) {
  FitOptions fit = testing::small_fit(2);
  fit.schedule = optim::reduce_on_plateau({.metric = "f1"});
  EXPECT_EQ(message_of<NotFound>([&] { testing::run_small(fit); }),
            "train: evaluation has no metric named 'f1', it has loss, accuracy");
}

}  // namespace
}  // namespace lockstep::train
