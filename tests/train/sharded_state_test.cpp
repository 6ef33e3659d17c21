// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/small_run.h"
#include "tests/train/step_net.h"

// Steps and runs whose workers have parts of the state: the bits are those of one process.
namespace lockstep::train {
namespace {

using kvstore::ShardState;
using testing::batches, testing::kStepNetShards, testing::kStepNetSteps, testing::message_of;

// What the parameters and slots are after some steps.
struct ParametersAndSlots {
  std::string sha256;
  std::vector<std::vector<float>> slots;  // rank 0's
  bool operator==(const ParametersAndSlots&) const = default;
};

ParametersAndSlots train_sharded(const optim::OptimizerPtr& rule, kvstore::Mode* mode,
                                 int threads) {
  StepEngine engine = testing::step_engine(kStepNetShards, rule, mode, threads);
  for (int step = 0; step < kStepNetSteps; ++step) engine.run(step, 0.05, batches(engine, step));
  engine.collect_slots();
  ParametersAndSlots state{engine.params_sha256(), {}};
  if (mode != nullptr && !mode->group().is_first()) return state;
  for (const auto& [name, tensor] : engine.slots())
    state.slots.push_back(tensor.to_vector<float>());
  return state;
}

TEST(ShardedState, StepsHaveTheBitsOfOneProcessOnAnyNumberOfWorkersAndThreads) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 0.5}), optim::lamb({})};
  for (const optim::OptimizerPtr& rule : rules) {
    const ParametersAndSlots alone = train_sharded(rule, nullptr, 1);
    for (const ShardState stage : {ShardState::slots, ShardState::gradients})
      for (int workers = 1; workers <= 5; ++workers)
        testing::as_ranks(workers, [&](comm::Communicator& communicator) {
          const auto mode = kvstore::allreduce_mode(communicator, {.shard_state = stage});
          const int threads = 1 + (workers + static_cast<int>(stage)) % 3;
          const ParametersAndSlots own = train_sharded(rule, mode.get(), threads);
          EXPECT_EQ(own.sha256, alone.sha256) << rule->name() << ", " << workers << " workers";
          if (communicator.rank() != 0) return;
          EXPECT_EQ(own.slots, alone.slots) << rule->name();
        });
  }
}

// The bytes that a worker plans for a step, and how many of them are a whole flat buffer.
std::size_t sharded_step_bytes(int workers, ShardState stage) {
  std::size_t bytes = 0;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < workers; ++rank) hosts.push_back(std::to_string(rank));
  testing::as_ranks(hosts, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator, {.shard_state = stage});
    const StepEngine engine = testing::step_engine(kStepNetShards, optim::adam({}), mode.get(), 1);
    if (communicator.rank() == 0) bytes = engine.step_bytes();
  });
  return bytes;
}

TEST(ShardedState, AStepNeedsLessMemoryWithEachStage) {
  const std::size_t none = sharded_step_bytes(2, ShardState::none);
  const std::size_t slots = sharded_step_bytes(2, ShardState::slots);
  const std::size_t gradients = sharded_step_bytes(2, ShardState::gradients);
  EXPECT_LT(slots, none);
  EXPECT_LT(gradients, slots);
}

std::string fresh_folder(const char* name) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  return folder.string();
}

struct ShardedPart {
  int workers = 1;
  ShardState stage = ShardState::none;
  std::int64_t epochs = 1;
};

// Runs with these workers and goes on in the folder; the first one's hash.
std::string fit_sharded(const std::string& folder, const ShardedPart& part) {
  std::string sha256;
  testing::as_ranks(part.workers, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator, {.shard_state = part.stage});
    Trainer trainer(testing::small_net(), testing::cross_entropy(),
                    optim::adam({.learning_rate = 0.01, .clip_norm = 1.0}),
                    {.global_batch = 24, .shards = 8, .seed = 3, .mode = mode.get()});
    FitOptions options = testing::small_fit(part.epochs);
    options.checkpoints = folder;
    options.resume = true;
    const FitResult result = trainer.fit(testing::small_images(100), options);
    if (communicator.rank() == 0) sha256 = result.params_sha256;
  });
  return sha256;
}

TEST(ShardedState, ACheckpointGoesOnWithAnyNumberOfWorkersAndAnyStage) {
  const std::string whole = fresh_folder("sharded_whole"), parts = fresh_folder("sharded_parts");
  const std::string expected = fit_sharded(whole, {.workers = 1, .epochs = 5});
  const ShardedPart plan[] = {{2, ShardState::slots, 1},
                              {3, ShardState::gradients, 2},
                              {1, ShardState::none, 3},
                              {5, ShardState::slots, 4},
                              {2, ShardState::gradients, 5}};
  std::string last;
  for (const ShardedPart& part : plan) last = fit_sharded(parts, part);
  EXPECT_EQ(last, expected);
}

TEST(ShardedState, RefusesToSurviveWhatItCannot) {
  struct Nothing final : Survival {
    bool is_late() const override { return false; }
    void begin() override {}
    bool wants_change() const override { return false; }
    kvstore::Mode* next(const cluster::Standing&) override { return nullptr; }
    void leave() override {}
    bool is_run_done() const override { return false; }
    void wait_for_nobody() override {}
    void conclude() override {}
    cluster::Alignment align(const cluster::Progress&) override { return {}; }
    void settle() override {}
    kvstore::Mode* mode() override { return nullptr; }
    bool has_ended() const override { return false; }
    std::int64_t generation() const override { return 0; }
    std::vector<cluster::MembershipEvent> events() const override { return {}; }
  } survival;
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator, {.shard_state = ShardState::slots});
    EXPECT_EQ(message_of<Unsupported>([&] {
                Trainer(
                    testing::small_net(), testing::cross_entropy(), optim::sgd({}),
                    {.global_batch = 24, .shards = 8, .mode = mode.get(), .survival = &survival});
              }),
              "train: workers that each have a part of the state cannot survive the loss of one: "
              "expected shard-state 0, or no survival");
  });
}

}  // namespace
}  // namespace lockstep::train
