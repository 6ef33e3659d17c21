// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

constexpr std::int64_t kBadDataSamples = 32;

struct Arrays {
  Tensor x = Tensor::full({kBadDataSamples, 3}, 0.5);
  Tensor label = Tensor::zeros({kBadDataSamples}, DType::int64);
  data::DatasetPtr set() const {
    return std::make_shared<data::ArrayDataset>(data::Fields{x, label});
  }
};

TrainerOptions bad_data_options(kvstore::Mode* mode = nullptr) {
  return {.global_batch = 16, .shards = 4, .seed = 1, .mode = mode};
}

Trainer bad_data_trainer(const TrainerOptions& with = bad_data_options()) {
  return {nn::sequential(nn::dense(4)), nn::SoftmaxCrossEntropyLoss(), optim::sgd({}), with};
}

TEST(BadData, IsNamedWithTheSampleThatHasIt) {
  Arrays arrays;
  arrays.x.data<float>()[19 * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message_of<Diverged>([&] {
              bad_data_trainer().fit(arrays.set(),
                                     {.sampler = data::sequential_sampler(kBadDataSamples)});
            }),
            "train: sample 19 of the data set has a nan in field data0, at step 2");
  arrays.x.data<float>()[5 * 3] = std::numeric_limits<float>::infinity();
  TrainerOptions named = bad_data_options();
  named.fields = {input("image"), label("class")};
  EXPECT_EQ(message_of<Diverged>([&] {
              bad_data_trainer(named).fit(arrays.set(),
                                          {.sampler = data::sequential_sampler(kBadDataSamples)});
            }),
            "train: sample 5 of the data set has an infinity in field image, at step 1");
}

TEST(BadData, IsFoundInAnyOrderOfTheSamples) {
  Arrays arrays;
  arrays.x.data<float>()[19 * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
  const std::string message = message_of<Diverged>([&] { bad_data_trainer().fit(arrays.set()); });
  EXPECT_TRUE(message.starts_with("train: sample 19 of the data set has a nan in field data0, at "))
      << message;
}

TEST(BadData, OfOneWorkerIsEverybodysMessage) {
  Arrays arrays;
  arrays.x.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    EXPECT_EQ(message_of<Diverged>([&] {
                bad_data_trainer(bad_data_options(mode.get()))
                    .fit(arrays.set(), {.sampler = data::sequential_sampler(kBadDataSamples)});
              }),
              "train: sample 1 of the data set has a nan in field data0, at step 1");
  });
}

TEST(BadData, LabelsThatAreNoClassNameTheirSample) {
  Arrays arrays;
  arrays.label.data<std::int64_t>()[21] = 4;
  const std::string reason = "softmax_cross_entropy: label 4 is outside 0..3";
  for (const int threads : {1, 2}) {
    TrainerOptions with = bad_data_options();
    with.threads = threads;
    EXPECT_EQ(message_of([&] {
                bad_data_trainer(with).fit(arrays.set(),
                                           {.sampler = data::sequential_sampler(kBadDataSamples)});
              }),
              "train: sample 21 of the data set: " + reason);
  }
  const auto net = nn::sequential(nn::dense(4));
  net->initialize();
  EXPECT_EQ(message_of([&] {
              Evaluator(net, nn::SoftmaxCrossEntropyLoss()).run(*arrays.set(), {.batch = 6});
            }),
            "evaluate: sample 21 of the data set: " + reason);
}

// A cast would make class 0 of a NaN, and class 1 of 1.5.
TEST(BadData, FloatsThatAreNoClassNumberNameTheirSample) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1.5F}) {
    Arrays arrays;
    arrays.label = Tensor::zeros({kBadDataSamples});
    arrays.label.data<float>()[21] = bad;
    const std::string reason = fmt::format("class_numbers: label {} is no class number", bad);
    for (const nn::SoftmaxCrossEntropyOptions& how :
         {nn::SoftmaxCrossEntropyOptions{}, nn::SoftmaxCrossEntropyOptions{.ignore_label = 0}}) {
      const auto net = nn::sequential(nn::dense(4));
      Trainer with(net, nn::SoftmaxCrossEntropyLoss(how), optim::sgd({}), bad_data_options());
      EXPECT_EQ(message_of([&] {
                  with.fit(arrays.set(), {.sampler = data::sequential_sampler(kBadDataSamples)});
                }),
                "train: sample 21 of the data set: " + reason);
      EXPECT_EQ(message_of([&] { with.evaluate(*arrays.set(), {.batch = 6}); }),
                "evaluate: sample 21 of the data set: " + reason);
    }
  }
}

TEST(BadData, AFitThatFailsLeavesTheParametersOfItsLastStep) {
  Arrays arrays;
  for (std::int64_t i = 0; i < kBadDataSamples * 3; ++i)
    arrays.x.data<float>()[i] = static_cast<float>(i % 7) - 3.0F;
  const auto after = [&](const data::DatasetPtr& set, std::int64_t steps, const CallbackPtr& with) {
    const auto net = nn::sequential(nn::dense(4));
    Trainer one(net, nn::SoftmaxCrossEntropyLoss(), optim::sgd({.learning_rate = 0.1}),
                bad_data_options());
    FitOptions how{.steps = steps, .sampler = data::sequential_sampler(kBadDataSamples)};
    if (with) how.callbacks = {with};
    try {
      one.fit(set, how);
    } catch (const std::exception&) {
    }
    return net->parameter("0.weight").data().to_vector<float>();
  };
  const std::vector<float> one_step = after(arrays.set(), 1, {}),
                           two_steps = after(arrays.set(), 2, {});
  EXPECT_NE(one_step, two_steps);
  EXPECT_EQ(after(arrays.set(), 5, on_step([](FitContext&, const StepEvent& event) {
                    if (event.step == 2) throw std::runtime_error("no more");
                  })),
            two_steps);
  arrays.label.data<std::int64_t>()[21] = 4;  // of the second step
  EXPECT_EQ(after(arrays.set(), 5, {}), one_step);
  arrays.label.data<std::int64_t>()[21] = 0;
  arrays.x.data<float>()[21 * 3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(after(arrays.set(), 5, {}), one_step);
}

TEST(BadData, ASchedulesRateThatIsNoneNamesScheduleAndStep) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -0.5, std::numeric_limits<double>::infinity()}) {
    std::int64_t steps = 0;
    const optim::Schedule schedule{"sawtooth",
                                   [&](std::int64_t step) { return step == 1 ? bad : 0.1; }};
    FitOptions how{.schedule = schedule};
    how.callbacks = {on_step([&](FitContext&, const StepEvent& event) { steps = event.step; })};
    EXPECT_EQ(message_of([&] { bad_data_trainer().fit(Arrays().set(), how); }),
              fmt::format("train: the schedule sawtooth gives a learning rate of {} for step 2, "
                          "expected 0 or more",
                          bad));
    EXPECT_EQ(steps, 1);
  }
}

TEST(BadData, CallbacksThatWatchEvaluationsNeedAValidationSet) {
  const Monitor monitor{.metric = "loss", .maximize = false};
  const auto error_with = [&](const CallbackPtr& callback) {
    return message_of([&] { bad_data_trainer().fit(Arrays().set(), {.callbacks = {callback}}); });
  };
  EXPECT_EQ(error_with(early_stopping(monitor, 2)),
            "early_stopping: watches the loss of evaluations, and there are none: give the run a "
            "validation set (FitOptions::validation)");
  EXPECT_EQ(error_with(best_model("best.params", monitor)),
            "best_model: watches the loss of evaluations, and there are none: give the run a "
            "validation set (FitOptions::validation)");
}

}  // namespace
}  // namespace lockstep::train
