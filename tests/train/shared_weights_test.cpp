// SPDX-License-Identifier: Apache-2.0
// Workers that have the weights of their own pieces alone, and gather them segment by segment: the
// bits of one process, in less memory.
#include <gtest/gtest.h>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/loss.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"
#include "tests/train/cut_nets.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using kvstore::ShardState;
using testing::message_of;

constexpr std::int64_t kChainShards = 5, kChainSteps = 3;

struct ChainShape {
  int threads = 1;
  std::vector<std::string> cuts = {"1", "3", "4", "6"};
  bool recompute = false;
};

struct ChainOutcome {
  std::string sha256;
  std::vector<double> losses;
  std::vector<std::vector<float>> slots;  // the first worker's
  bool operator==(const ChainOutcome&) const = default;
};

ChainOutcome train_chain(std::uint64_t seed, const optim::OptimizerPtr& rule,
                         const ChainShape& shape, kvstore::Mode* mode) {
  const auto net = std::make_shared<testing::RandomChain>(seed);
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), rule, testing::cut_fields(),
                    {.shards = kChainShards,
                     .threads = shape.threads,
                     .seed = 7,
                     .mode = mode,
                     .bucket_bytes = 1024,
                     .cuts = shape.cuts,
                     .recompute = shape.recompute});
  ChainOutcome outcome;
  outcome.losses = testing::run_cut_steps(engine, kChainSteps);
  outcome.sha256 = engine.params_sha256();
  engine.collect_slots();
  const Snapshot snapshot = engine.snapshot();
  for (const auto& [name, tensor] : snapshot.slots)
    outcome.slots.push_back(tensor.to_vector<float>());
  return outcome;
}

void expect_same_on(int workers, const ChainOutcome& alone,
                    const std::function<ChainOutcome(kvstore::Mode*)>& train,
                    comm::Algorithm algorithm = comm::Algorithm::tree) {
  testing::as_ranks(workers, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(
        communicator, {.algorithm = algorithm, .shard_state = ShardState::parameters});
    EXPECT_EQ(mode->shares_weights(), workers > 1);
    const ChainOutcome own = train(mode.get());
    EXPECT_EQ(own.sha256, alone.sha256);
    EXPECT_EQ(own.losses, alone.losses);
    if (communicator.rank() != 0) return;
    EXPECT_EQ(own.slots, alone.slots);
  });
}

TEST(SharedWeights, StepsHaveTheBitsOfOneProcessOnAnyNumberOfWorkersAndThreads) {
  const optim::OptimizerPtr rules[] = {optim::sgd({.momentum = 0.9}),
                                       optim::adamw({.clip_norm = 1e-3}), optim::lamb({})};
  for (std::uint64_t k = 0; k < 3; ++k) {
    const std::uint64_t seed = testing::seed_of_this_run() + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const optim::OptimizerPtr& rule = rules[k];
    const ChainOutcome alone = train_chain(seed, rule, {}, nullptr);
    for (int workers = 1; workers <= 5; ++workers)
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {} workers, recompute {}", rule->name(), workers, recompute));
        const ChainShape shape{.threads = 1 + (workers + static_cast<int>(k)) % 3,
                               .recompute = recompute};
        expect_same_on(workers, alone,
                       [&](kvstore::Mode* mode) { return train_chain(seed, rule, shape, mode); });
      }
  }
}

TEST(SharedWeights, OfANetInOnePieceAndByAnyCanonicalAlgorithmToo) {
  const std::uint64_t seed = testing::seed_of_this_run();
  const optim::OptimizerPtr rule = optim::adam({});
  const ChainShape uncut{.threads = 2, .cuts = {}};
  const ChainOutcome alone = train_chain(seed, rule, uncut, nullptr);
  const auto train = [&](kvstore::Mode* mode) { return train_chain(seed, rule, uncut, mode); };
  for (const int workers : {2, 3}) expect_same_on(workers, alone, train);
  expect_same_on(3, alone, train, comm::Algorithm::central);
}

// Dense layers of 320 x 320 with few samples: parameters are nearly all that there is.
constexpr std::int64_t kWide = 320;
constexpr int kLayers = 8;

StepEngine wide_engine(kvstore::Mode* mode, std::int64_t shards) {
  const auto net = nn::sequential();
  for (int i = 0; i < kLayers; ++i) net->add(nn::dense(kWide, {.inputs = kWide}));
  net->initialize();
  return {net,
          nn::SoftmaxCrossEntropyLoss(),
          optim::adam({}),
          {{{1, kWide}, DType::float32, {}}, {{1}, DType::int64, {}}},
          {.shards = shards, .mode = mode, .cuts = {"2", "4", "6"}}};
}

double wide_step_bytes(int workers, ShardState stage) {
  double bytes = 0.0;
  testing::as_ranks(workers, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator, {.shard_state = stage});
    const StepEngine engine = wide_engine(mode.get(), workers);
    if (communicator.rank() == 0) bytes = static_cast<double>(engine.step_bytes());
  });
  return bytes;
}

// docs/model_parallel.md: weights, slots and sums of the own pieces; two segments' weights; and the
// sums of one segment.
TEST(SharedWeights, AWorkerNeedsWhatTheFormulaSays) {
  const double parameters = kLayers * (kWide * kWide + kWide), segment = parameters / 4.0;
  // Of a worker that has all of it, twice, and one shard: the rest is what a pass works with.
  const double passes =
      static_cast<double>(wide_engine(nullptr, 1).step_bytes()) - 6.0 * parameters * 4.0;
  for (const int workers : {2, 3, 4}) {
    const double part = parameters / workers;
    const double expected = (2.0 * part + 4.0 * part + part + 2.0 * segment + segment) * 4.0;
    const double measured = wide_step_bytes(workers, ShardState::parameters) - passes;
    EXPECT_NEAR(measured, expected, 0.05 * expected) << workers;
    EXPECT_LT(measured, wide_step_bytes(workers, ShardState::gradients) - passes);
  }
}

struct SharedPart {
  int workers = 1;
  ShardState stage = ShardState::none;
  std::int64_t epochs = 1;
  bool recompute = false;
};

FitResult fit_shared(const std::string& folder, const SharedPart& part) {
  FitResult result;
  testing::as_ranks(part.workers, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator, {.shard_state = part.stage});
    Trainer trainer(testing::small_net(), testing::cross_entropy(),
                    optim::adam({.learning_rate = 0.01, .clip_norm = 1.0}),
                    {.global_batch = 24,
                     .shards = 8,
                     .seed = 3,
                     .mesh = {.cuts = {"1", "3"}},
                     .recompute = part.recompute,
                     .mode = mode.get()});
    FitOptions options = testing::small_fit(part.epochs);
    options.checkpoints = folder;
    options.resume = true;
    FitResult own = trainer.fit(testing::small_images(100), options);
    if (communicator.rank() == 0) result = std::move(own);
  });
  return result;
}

TEST(SharedWeights, ACheckpointGoesOnWithAnyNumberOfWorkersAndAnyStage) {
  const testing::TemporaryFolder folder("shared_weights");
  const FitResult whole = fit_shared(folder.path() + "/whole", {.workers = 1, .epochs = 5});
  const SharedPart plan[] = {{2, ShardState::parameters, 1},
                             {3, ShardState::parameters, 2, true},
                             {2, ShardState::slots, 3},
                             {5, ShardState::parameters, 4},
                             {1, ShardState::none, 5}};
  FitResult last;
  for (const SharedPart& part : plan) last = fit_shared(folder.path() + "/parts", part);
  EXPECT_EQ(last.params_sha256, whole.params_sha256);
  const FitResult shared = fit_shared(folder.path() + "/shared", {3, ShardState::parameters, 5});
  EXPECT_EQ(shared.params_sha256, whole.params_sha256);
  EXPECT_EQ(shared.validation.loss, whole.validation.loss);
  EXPECT_EQ(shared.validation.accuracy, whole.validation.accuracy);
}

TEST(SharedWeights, OfANetWhoseShardsMeetIsRefused) {
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode =
        kvstore::allreduce_mode(communicator, {.shard_state = ShardState::parameters});
    const auto net = nn::sequential(nn::dense(8, {.inputs = 4}), nn::sync_batch_norm(),
                                    nn::dense(3, {.inputs = 8}));
    net->initialize();
    EXPECT_EQ(message_of<Unsupported>([&] {
                StepEngine(net, nn::SoftmaxCrossEntropyLoss(), optim::sgd({}),
                           {{{2, 4}, DType::float32, {}}, {{2}, DType::int64, {}}},
                           {.shards = 4, .mode = mode.get()});
              }),
              "train: with shard-state 3 a worker computes segment after segment, each for one "
              "shard after the other, and shards of this net wait for each other "
              "(sync_batch_norm)");
  });
}

}  // namespace
}  // namespace lockstep::train
