// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/kvstore/allreduce.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// Each worker's result; `change` makes a worker's own options of those of all.
template <class Change>
std::vector<FitResult> fit_workers(int workers, const Change& change) {
  std::vector<FitResult> results(static_cast<std::size_t>(workers));
  testing::as_ranks(workers, [&](comm::Communicator& communicator) {
    const int rank = communicator.rank();
    const auto mode = kvstore::allreduce_mode(communicator);
    Trainer trainer(testing::small_net(), testing::cross_entropy(),
                    optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                    {.global_batch = 24, .shards = 8, .seed = 3, .mode = mode.get()});
    FitOptions options = testing::small_fit(3);
    change(rank, options);
    results[static_cast<std::size_t>(rank)] = trainer.fit(testing::small_images(100), options);
  });
  return results;
}

// With metrics every worker evaluates by itself: the one that is stopped there stops all.
TEST(TrainerWorkers, StopTogetherWhenOneIsStoppedInAnEvaluationOfItsOwn) {
  std::atomic<bool> stop = false;
  const auto results = fit_workers(2, [&](int rank, FitOptions& options) {
    options.metrics = {std::make_shared<nn::TopKAccuracy>(2)};
    if (rank == 0) return;
    options.stop = &stop;
    options.callbacks = {on_epoch([&stop](FitContext&, const EpochEvent&) { stop = true; })};
  });
  for (const FitResult& result : results) {
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(result.steps, 4);
    EXPECT_TRUE(result.history.empty());
    EXPECT_EQ(result.params_sha256, results[0].params_sha256);
  }
}

TEST(TrainerWorkers, EvaluateWithMetricsAsOneDoes) {
  const auto measure = [](int, FitOptions& options) {
    options.metrics = {std::make_shared<nn::TopKAccuracy>(2)};
  };
  const FitResult alone = fit_workers(1, measure)[0];
  for (const FitResult& result : fit_workers(3, measure)) {
    EXPECT_EQ(result.params_sha256, alone.params_sha256);
    EXPECT_EQ(result.validation.metrics, alone.validation.metrics);
  }
}

// The message of each worker, in one step whose gradients are of the order of `scale`.
std::vector<std::string> messages_of_step(const char* compression, double scale) {
  std::vector<std::string> messages(2);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    kvstore::AllReduceOptions options;
    options.compression = kvstore::parse_compression(compression);
    const auto mode = kvstore::allreduce_mode(communicator, options);
    const auto loss = [scale](const Tensor& output, const Tensor& label) {
      return testing::cross_entropy()(output, label) * scale;
    };
    Trainer trainer(testing::small_net(), loss, optim::sgd({.learning_rate = 1e-9}),
                    {.global_batch = 24, .shards = 8, .mode = mode.get()});
    FitOptions fit = testing::small_fit();
    fit.epochs = 0;
    fit.steps = 1;
    try {
      trainer.fit(testing::small_images(100), fit);
    } catch (const Diverged& error) {
      messages[static_cast<std::size_t>(communicator.rank())] = error.what();
    }
  });
  return messages;
}

TEST(TrainerWorkers, AreToldThatAGradientIsTooLargeForFp16) {
  for (const std::string& message : messages_of_step("fp16", 1e6)) {
    EXPECT_TRUE(message.starts_with("train: the gradient of 4.")) << message;
    EXPECT_NE(message.find(" is beyond 65504, the most that fp16 holds, at step 1; use bf16 "
                           "compression, which holds it, or a lower learning rate"),
              std::string::npos)
        << message;
  }
  for (const std::string& message : messages_of_step("bf16", 1e6)) EXPECT_EQ(message, "");
  for (const std::string& message : messages_of_step("fp16", NAN))
    EXPECT_TRUE(message.starts_with("train: the loss is nan at step 1")) << message;
}

TEST(TrainerWorkers, NeedAShardEach) {
  testing::as_ranks(3, [](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    EXPECT_EQ(message_of<InvalidArgument>([&] {
                Trainer(testing::small_net(), testing::cross_entropy(), optim::sgd({}),
                        {.global_batch = 24, .shards = 2, .mode = mode.get()});
              }),
              "train: 3 workers cannot share 2 shards: each needs one");
  });
}

}  // namespace
}  // namespace lockstep::train
