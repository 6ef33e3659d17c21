// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "lockstep/comm/transports/in_process.h"
#include "lockstep/kvstore/allreduce.h"
#include "tests/message.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// Each worker's result; `change` makes a worker's own options of those of all.
template <class Change>
std::vector<FitResult> fit_workers(int workers, const Change& change) {
  comm::InProcessGroup group(std::vector<std::string>(static_cast<std::size_t>(workers), "here"));
  std::vector<FitResult> results(static_cast<std::size_t>(workers));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      comm::Communicator communicator(group.connect(rank));
      const auto exchange = kvstore::allreduce_exchange(communicator);
      Trainer trainer(testing::small_net(), testing::cross_entropy(),
                      optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                      {.global_batch = 24, .shards = 8, .seed = 3, .exchange = exchange.get()});
      FitOptions options = testing::small_fit(3);
      change(rank, options);
      results[static_cast<std::size_t>(rank)] = trainer.fit(testing::small_images(100), options);
    });
  threads.clear();
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

TEST(TrainerWorkers, NeedAShardEach) {
  comm::InProcessGroup group({"here", "here", "here"});
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&group, rank] {
      comm::Communicator communicator(group.connect(rank));
      const auto exchange = kvstore::allreduce_exchange(communicator);
      EXPECT_EQ(message_of<InvalidArgument>([&] {
                  Trainer(testing::small_net(), testing::cross_entropy(), optim::sgd({}),
                          {.global_batch = 24, .shards = 2, .exchange = exchange.get()});
                }),
                "train: 3 workers cannot share 2 shards: each needs one");
    });
}

}  // namespace
}  // namespace lockstep::train
