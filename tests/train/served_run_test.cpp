// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/servers/server_room.h"
#include "tests/train/small_run.h"
#include "tests/train/step_net.h"

namespace lockstep::train {
namespace {

using testing::batches, testing::kStepNetShards, testing::kStepNetSteps;
using testing::ServerRoom, testing::StepNet;

// Parameters and slots.
std::string numbers_of(const StepEngine& engine) {
  return engine.params_sha256() + io::tensors_sha256(engine.slots());
}

std::string train_served(const optim::OptimizerPtr& rule, kvstore::Mode* mode, int threads) {
  StepEngine engine = testing::step_engine(kStepNetShards, rule, mode, threads);
  for (int step = 0; step < kStepNetSteps; ++step) engine.run(step, 0.05, batches(engine, step));
  return numbers_of(engine);
}

const std::vector<optim::OptimizerPtr>& rules() {
  static const std::vector<optim::OptimizerPtr> all{
      optim::sgd({.momentum = 0.9}), optim::adamw({.clip_norm = 0.5}), optim::lamb({}),
      optim::lamb({.clip_norm = 0.5})};
  return all;
}

TEST(ServedRun, StepsGiveTheBitsOfOneProcess) {
  for (const optim::OptimizerPtr& rule : rules()) {
    const std::string alone = train_served(rule, nullptr, 1);
    for (int workers : {1, 2, 3})
      for (int servers : {1, 2, 3}) {
        const int threads = 1 + (workers + servers) % 2;
        ServerRoom room(servers, workers);
        room.as_workers([&](kvstore::Mode& mode) {
          EXPECT_EQ(train_served(rule, &mode, threads), alone)
              << rule->name() << ", " << servers << " servers, " << workers << " x " << threads;
        });
      }
  }
}

TEST(ServedRun, OneWorkerThatIsNotInStepHasTheBitsOfAProcessAloneWithSparseGradientsToo) {
  for (const optim::OptimizerPtr& rule : rules()) {
    const std::string alone = train_served(rule, nullptr, 1);
    for (int servers : {1, 3}) {
      ServerRoom room(servers, 1);
      room.as_workers_out_of_step([&](kvstore::Mode& mode) {
        EXPECT_EQ(train_served(rule, &mode.out_of_step()->alone(), 1), alone)
            << rule->name() << ", " << servers << " servers";
      });
    }
  }
}

TEST(ServedRun, WorkersThatAreNotInStepHaveTheSameTablesWhereTheyMeet) {
  constexpr int kWorkers = 3;
  for (const optim::OptimizerPtr& rule : rules()) {
    ServerRoom room(2, kWorkers);
    room.as_workers_out_of_step([&](kvstore::Mode& mode) {
      StepEngine engine =
          testing::step_engine(kStepNetShards, rule, &mode.out_of_step()->alone(), 1);
      const std::string before = engine.params_sha256();
      for (int i = 0; i < 4; ++i) {
        const int ticket = i * kWorkers + mode.group().rank();
        EXPECT_TRUE(engine.run(ticket, 0.01, batches(engine, ticket)).finite);
      }
      mode.group().share("");  // all are done
      engine.pull();
      const auto table_of = [&] {
        for (const auto& [name, values] : engine.snapshot().parameters)
          if (name == "table") return io::tensors_sha256({{name, values}});
        return std::string("no table");
      };
      for (const std::string& other : mode.group().share(table_of()))
        EXPECT_EQ(other, table_of()) << rule->name();
      EXPECT_NE(engine.params_sha256(), before);
    });
  }
}

// Slots that were set come to the rows' server, and weights that were loaded.
TEST(ServedRun, GoesOnWithTheSlotsOfTablesThatWereSet) {
  const optim::OptimizerPtr rule = optim::adam({});
  StepEngine alone = testing::step_engine(kStepNetShards, rule, nullptr, 1);
  for (int step = 0; step < kStepNetSteps; ++step) alone.run(step, 0.05, batches(alone, step));
  const auto slots = alone.slots();
  const auto net = std::make_shared<StepNet>();
  net->initialize(nn::init::fan_in(), 3);
  alone.store(*net);
  alone.run(kStepNetSteps, 0.05, batches(alone, kStepNetSteps));
  const std::string expected = numbers_of(alone);
  ServerRoom room(2, 2);
  room.as_workers([&](kvstore::Mode& mode) {
    StepEngine engine = testing::step_engine(kStepNetShards, rule, &mode, 1);
    engine.run(0, 0.05, batches(engine, 0));
    engine.load(*net);
    engine.set_slots(slots);
    engine.run(kStepNetSteps, 0.05, batches(engine, kStepNetSteps));
    EXPECT_EQ(numbers_of(engine), expected);
  });
}

// The result of so many epochs, in one go or from the folder's checkpoint on.
FitResult fit_served(kvstore::Mode* mode, std::int64_t epochs, const std::string& folder,
                     bool resume) {
  Trainer trainer(testing::small_net(), testing::cross_entropy(), optim::adam({}),
                  {.global_batch = 24, .shards = kStepNetShards, .seed = 3, .mode = mode});
  FitOptions options = testing::small_fit(epochs);
  if (mode == nullptr || mode->group().is_first()) options.checkpoints = folder;
  options.resume = resume && !options.checkpoints.empty();
  options.may_differ = {"epochs", "schedule"};
  return trainer.fit(testing::small_images(100), options);
}

TEST(ServedRun, ACheckpointHasTheSlotsOfTheServersAndIsResumedWithAnyNumberOfThem) {
  const FitResult whole = fit_served(nullptr, 3, "", false);
  const std::string folder = (std::filesystem::path(::testing::TempDir()) / "served_run").string();
  std::filesystem::remove_all(folder);
  ServerRoom first(2, 2);
  first.as_workers([&](kvstore::Mode& mode) { fit_served(&mode, 2, folder, false); });
  ServerRoom second(3, 3);
  second.as_workers([&](kvstore::Mode& mode) {
    const FitResult result = fit_served(&mode, 3, folder, true);
    EXPECT_EQ(result.params_sha256, whole.params_sha256);
    EXPECT_EQ(result.resumed_from, 8);
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::train
