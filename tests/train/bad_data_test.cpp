// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

constexpr std::int64_t kSamples = 32;

struct Arrays {
  Tensor x = Tensor::full({kSamples, 3}, 0.5);
  Tensor label = Tensor::zeros({kSamples}, DType::int64);
  data::DatasetPtr set() const {
    return std::make_shared<data::ArrayDataset>(data::Fields{x, label});
  }
};

TrainerOptions options(kvstore::Mode* mode = nullptr) {
  return {.global_batch = 16, .shards = 4, .seed = 1, .mode = mode};
}

Trainer trainer(const TrainerOptions& with = options()) {
  return {nn::sequential(nn::dense(4)), nn::SoftmaxCrossEntropyLoss(), optim::sgd({}), with};
}

TEST(BadData, IsNamedWithTheSampleThatHasIt) {
  Arrays arrays;
  arrays.x.data<float>()[19 * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message_of<Diverged>([&] {
              trainer().fit(arrays.set(), {.sampler = data::sequential_sampler(kSamples)});
            }),
            "train: sample 19 of the data set has a nan in field data0, at step 2");
  arrays.x.data<float>()[5 * 3] = std::numeric_limits<float>::infinity();
  TrainerOptions named = options();
  named.fields = {input("image"), label("class")};
  EXPECT_EQ(message_of<Diverged>([&] {
              trainer(named).fit(arrays.set(), {.sampler = data::sequential_sampler(kSamples)});
            }),
            "train: sample 5 of the data set has an infinity in field image, at step 1");
}

TEST(BadData, IsFoundInAnyOrderOfTheSamples) {
  Arrays arrays;
  arrays.x.data<float>()[19 * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
  const std::string message = message_of<Diverged>([&] { trainer().fit(arrays.set()); });
  EXPECT_TRUE(message.starts_with("train: sample 19 of the data set has a nan in field data0, at "))
      << message;
}

TEST(BadData, OfOneWorkerIsEverybodysMessage) {
  Arrays arrays;
  arrays.x.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    EXPECT_EQ(message_of<Diverged>([&] {
                trainer(options(mode.get()))
                    .fit(arrays.set(), {.sampler = data::sequential_sampler(kSamples)});
              }),
              "train: sample 1 of the data set has a nan in field data0, at step 1");
  });
}

TEST(BadData, LabelsThatAreNoClassNameTheirSample) {
  Arrays arrays;
  arrays.label.data<std::int64_t>()[21] = 4;
  const std::string reason = "softmax_cross_entropy: label 4 of row 0 is outside 0..3";
  for (const int threads : {1, 2}) {
    TrainerOptions with = options();
    with.threads = threads;
    EXPECT_EQ(message_of([&] {
                trainer(with).fit(arrays.set(), {.sampler = data::sequential_sampler(kSamples)});
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

TEST(BadData, CallbacksThatWatchEvaluationsNeedAValidationSet) {
  const Monitor monitor{.metric = "loss", .maximize = false};
  const auto error_with = [&](const CallbackPtr& callback) {
    return message_of([&] { trainer().fit(Arrays().set(), {.callbacks = {callback}}); });
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
