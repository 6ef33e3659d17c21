// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/message.h"
#include "tests/train/small_run.h"
#include "tests/train/step_net.h"

namespace lockstep::train {
namespace {

using testing::batches, testing::kShardBatch, testing::ServerRoom, testing::StepNet;

constexpr std::int64_t kShards = 8;
constexpr int kSteps = 3;

StepEngine make_engine(const optim::OptimizerPtr& rule, kvstore::Mode* mode, int threads,
                       bool sparse) {
  const auto net = std::make_shared<StepNet>([](const Tensor& x) { return x; }, sparse);
  net->initialize(nn::init::fan_in(), 3);
  const std::vector<TensorInfo> fields{{{kShardBatch, 3, 6, 6}, DType::float32, {}},
                                       {{kShardBatch}, DType::int64, {}}};
  EngineOptions options{.shards = kShards, .threads = threads, .seed = 3};
  options.mode = mode;
  options.bucket_bytes = 4096;
  return StepEngine(net, testing::mean_cross_entropy, rule, fields, options);
}

// Parameters and slots.
std::string train(const optim::OptimizerPtr& rule, kvstore::Mode* mode, int threads) {
  StepEngine engine = make_engine(rule, mode, threads, rule->options().clip_norm <= 0.0);
  for (int step = 0; step < kSteps; ++step) engine.run(step, 0.05, batches(engine, step));
  return engine.params_sha256() + io::tensors_sha256(engine.slots());
}

TEST(ServedRun, StepsGiveTheBitsOfOneProcess) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const std::string alone = train(rule, nullptr, 1);
    for (int workers : {1, 2, 3})
      for (int threads : {1, 2}) {
        ServerRoom room(2, workers);
        room.as_workers([&](kvstore::Mode& mode) {
          EXPECT_EQ(train(rule, &mode, threads), alone)
              << rule->name() << ", " << workers << " x " << threads;
        });
      }
  }
}

TEST(ServedRun, ANormOfAllGradientsIsNotClippedWhereSomeAreSparse) {
  ServerRoom room(1, 1);
  room.as_workers([&](kvstore::Mode& mode) {
    EXPECT_EQ(testing::message_of<Unsupported>(
                  [&] { make_engine(optim::adamw({.clip_norm = 0.5}), &mode, 1, true); }),
              "kvstore: the norm of all gradients is clipped, and some are sparse: expected "
              "allreduce or local, not servers");
  });
}

// The result of so many epochs, in one go or from the folder's checkpoint on.
FitResult fit(kvstore::Mode* mode, std::int64_t epochs, const std::string& folder, bool resume) {
  Trainer trainer(testing::small_net(), testing::cross_entropy(), optim::adam({}),
                  {.global_batch = 24, .shards = kShards, .seed = 3, .mode = mode});
  FitOptions options = testing::small_fit(epochs);
  if (mode == nullptr || mode->group().is_first()) options.checkpoints = folder;
  options.resume = resume && !options.checkpoints.empty();
  options.may_differ = {"epochs", "schedule"};
  return trainer.fit(testing::small_images(100), options);
}

TEST(ServedRun, ACheckpointHasTheSlotsOfTheServersAndIsResumedWithAnyNumberOfThem) {
  const FitResult whole = fit(nullptr, 3, "", false);
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "served_run").string();
  std::filesystem::remove_all(folder);
  ServerRoom first(2, 2);
  first.as_workers([&](kvstore::Mode& mode) { fit(&mode, 2, folder, false); });
  ServerRoom second(3, 3);
  second.as_workers([&](kvstore::Mode& mode) {
    const FitResult result = fit(&mode, 3, folder, true);
    EXPECT_EQ(result.params_sha256, whole.params_sha256);
    EXPECT_EQ(result.resumed_from, 8);
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::train
