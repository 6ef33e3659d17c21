// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/kvstore/allreduce.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

// What a worker brings; the second changes something.
struct Worker {
  nn::BlockPtr net = testing::small_net();
  LossFunction loss = testing::cross_entropy();
  optim::OptimizerPtr rule = optim::sgd({.learning_rate = 0.05});
  TrainerOptions trainer = {.global_batch = 24, .shards = 8, .seed = 3};
  FitOptions fit = testing::small_fit(1);
  data::DatasetPtr set = testing::small_images(100);
};

// Every worker's message; both hear of it before the first step.
std::string disagreement(const std::function<void(Worker&)>& change) {
  std::vector<std::string> messages(2);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    Worker worker;
    if (communicator.rank() == 1) change(worker);
    const auto mode = kvstore::allreduce_mode(communicator);
    worker.trainer.mode = mode.get();
    bool steps = false;
    worker.fit.callbacks.push_back(on_step([&](FitContext&, const StepEvent&) { steps = true; }));
    messages[static_cast<std::size_t>(communicator.rank())] = testing::message_of([&] {
      Trainer(worker.net, worker.loss, worker.rule, worker.trainer).fit(worker.set, worker.fit);
    });
    EXPECT_FALSE(steps);
  });
  EXPECT_EQ(messages[0], messages[1]);
  return messages[0];
}

TEST(Agreement, WorkersWithOtherOptionsAreToldAtOnce) {
  EXPECT_EQ(disagreement([](Worker& w) { w.fit.epochs = 2; }),
            "configuration: epochs is 1 on worker 0, 2 on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.fit.steps = 7; }),
            "configuration: steps is 0 on worker 0, 7 on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.trainer.seed = 4; }),
            "configuration: seed is 3 on worker 0, 4 on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.trainer.global_batch = 32; }),
            "configuration: global_batch is 24 on worker 0, 32 on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.trainer.shards = 4; }),
            "configuration: shards is 8 on worker 0, 4 on worker 1");
  EXPECT_EQ(
      disagreement([](Worker& w) { w.loss = nn::L2Loss(); }),
      "configuration: loss is \"SoftmaxCrossEntropyLoss\" on worker 0, \"L2Loss\" on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.fit.evaluate_every = 2; }),
            "configuration: evaluate_every is 0 on worker 0, 2 on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.fit.metrics = {nn::metric("mse")}; }),
            "configuration: metrics is \"\" on worker 0, \"mse\" on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.fit.train_metrics = {nn::metric("mse")}; }),
            "configuration: train_metrics is \"\" on worker 0, \"mse\" on worker 1");
  EXPECT_EQ(disagreement([](Worker& w) { w.fit.train_metric_samples = 7; }),
            "configuration: train_metric_samples is 0 on worker 0, 7 on worker 1");
  EXPECT_TRUE(disagreement([](Worker& w) {
                w.rule = optim::adam({});
              }).starts_with("configuration: optimizer is \"sgd("));
  EXPECT_TRUE(disagreement([](Worker& w) {
                w.net = nn::sequential(nn::dense(5));
              }).starts_with("configuration: net is \"8 parameters, names "));
  EXPECT_TRUE(
      disagreement([](Worker& w) {
        w.fit.sampler = data::sequential_sampler(100);
      }).starts_with("configuration: sampler is \"random\" on worker 0, \"100 samples, order "));
}

TEST(Agreement, WorkersWithOtherDataAreToldAtOnce) {
  const std::string smaller = disagreement([](Worker& w) { w.set = testing::small_images(80); });
  EXPECT_NE(smaller.find("samples is 100 on worker 0, 80 on worker 1"), std::string::npos)
      << smaller;
  // Smaller than a global batch, which is an error that one worker alone would see.
  const std::string tiny = disagreement([](Worker& w) { w.set = testing::small_images(3); });
  EXPECT_NE(tiny.find("samples is 100 on worker 0, 3 on worker 1"), std::string::npos) << tiny;
  const std::string other = disagreement([](Worker& w) { w.set = testing::small_images(100, 9); });
  EXPECT_NE(other.find("data_first_sample is \"contents "), std::string::npos) << other;
  const std::string none = disagreement([](Worker& w) { w.fit.validation = nullptr; });
  EXPECT_NE(none.find("validation_samples is 41 on worker 0, 0 on worker 1"), std::string::npos)
      << none;
}

TEST(Agreement, WorkersMayDifferInWhatChangesNoResult) {
  const auto change = [](Worker& worker) {
    worker.trainer.threads = 2;
    worker.fit.loader_threads = 2;
    worker.fit.callbacks = {on_epoch([](FitContext&, const EpochEvent&) {})};
  };
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    Worker worker;
    if (communicator.rank() == 1) change(worker);
    const auto mode = kvstore::allreduce_mode(communicator);
    worker.trainer.mode = mode.get();
    Trainer trainer(worker.net, worker.loss, worker.rule, worker.trainer);
    EXPECT_EQ(trainer.fit(worker.set, worker.fit).steps, 4);
  });
}

}  // namespace
}  // namespace lockstep::train
