// SPDX-License-Identifier: Apache-2.0
// Workers that have a stage of the net each: the bits of one that has all of it.
#include <gtest/gtest.h>

#include <mutex>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/staged_mode.h"
#include "lockstep/nn/loss.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"
#include "tests/train/cut_nets.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;
using testing::RandomChain;

struct Placement {
  int replicas = 1, stages = 1;
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  bool recompute = false;
};

// What one worker of it has in the end: they have the same.
template <class Work>
auto on(const Placement& placement, const Work& work) {
  using Result = decltype(work(static_cast<kvstore::Mode*>(nullptr)));
  std::vector<Result> results(static_cast<std::size_t>(placement.replicas * placement.stages));
  testing::as_ranks(placement.replicas * placement.stages, [&](comm::Communicator& communicator) {
    const auto mode =
        kvstore::staged_mode(communicator, cluster::workers_of(communicator), placement.stages);
    results[static_cast<std::size_t>(communicator.rank())] = work(mode.get());
  });
  return results;
}

constexpr std::int64_t kShards = 5, kSteps = 3;

struct Outcome {
  std::string sha256;
  std::vector<double> losses;
  Snapshot snapshot;
};

Outcome train_chain(std::uint64_t seed, const Placement& placement, kvstore::Mode* mode,
                    const optim::OptimizerPtr& rule = optim::lamb({.learning_rate = 0.01})) {
  const auto net = std::make_shared<RandomChain>(seed);
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), rule, testing::cut_fields(),
                    {.shards = kShards,
                     .seed = 7,
                     .mode = mode,
                     .cuts = {"1", "3", "4", "6"},
                     .schedule = placement.schedule,
                     .recompute = placement.recompute});
  Outcome outcome;
  outcome.losses = testing::run_cut_steps(engine, kSteps);
  outcome.sha256 = engine.params_sha256();
  outcome.snapshot = engine.snapshot();
  return outcome;
}

void expect_same(const std::vector<io::NamedTensor>& a, const std::vector<io::NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const auto found =
        std::find_if(b.begin(), b.end(), [&](const auto& x) { return x.first == name; });
    ASSERT_NE(found, b.end()) << name;
    EXPECT_EQ(tensor.to_vector<float>(), found->second.to_vector<float>()) << name;
  }
}

TEST(Pipeline, OfAnyShapeHasTheBitsOfOneWorker) {
  using Kind = parallel::ScheduleKind;
  for (std::uint64_t k = 0; k < 3; ++k) {
    const std::uint64_t seed = testing::seed_of_this_run() + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Outcome alone = train_chain(seed, {}, nullptr);
    for (const Placement& placement :
         {Placement{1, 2}, Placement{2, 1}, Placement{2, 2}, Placement{1, 3}, Placement{3, 2},
          Placement{1, 5}, Placement{1, 2, Kind::gpipe}, Placement{1, 3, Kind::one_f_one_b, true},
          Placement{2, 2, Kind::gpipe, true}, Placement{1, 2, Kind::zero_bubble},
          Placement{2, 2, Kind::zero_bubble}, Placement{1, 5, Kind::zero_bubble},
          Placement{1, 3, Kind::zero_bubble, true}}) {
      SCOPED_TRACE(fmt::format("{} x {}", placement.replicas, placement.stages));
      for (const Outcome& own :
           on(placement, [&](kvstore::Mode* mode) { return train_chain(seed, placement, mode); })) {
        EXPECT_EQ(own.sha256, alone.sha256);
        EXPECT_EQ(own.losses, alone.losses);
        expect_same(own.snapshot.slots, alone.snapshot.slots);
      }
    }
  }
}

// Far below the gradients' own norm, so that each step is scaled by it.
TEST(Pipeline, ClipsByTheNormOfAllGradients) {
  const std::uint64_t seed = testing::seed_of_this_run();
  const auto clipped = [] { return optim::adam({.learning_rate = 0.01, .clip_norm = 1e-3}); };
  const Outcome alone = train_chain(seed, {}, nullptr, clipped());
  EXPECT_NE(alone.sha256, train_chain(seed, {}, nullptr, optim::adam({})).sha256);
  for (const Placement& placement : {Placement{1, 2}, Placement{2, 2}, Placement{1, 5},
                                     Placement{1, 3, parallel::ScheduleKind::zero_bubble}})
    for (const Outcome& own : on(placement, [&](kvstore::Mode* mode) {
           return train_chain(seed, placement, mode, clipped());
         })) {
      EXPECT_EQ(own.sha256, alone.sha256);
      expect_same(own.snapshot.slots, alone.snapshot.slots);
    }
}

TrainerOptions options_of(const Placement& placement, kvstore::Mode* mode,
                          const std::vector<std::string>& cuts) {
  return {.global_batch = 24,
          .shards = 8,
          .seed = 3,
          .mesh = {.cuts = cuts},
          .schedule = placement.schedule,
          .recompute = placement.recompute,
          .mode = mode};
}

FitResult fit(const Placement& placement, kvstore::Mode* mode, const FitOptions& options,
              const std::vector<std::string>& cuts = {"1", "3"}) {
  Trainer trainer(testing::small_net(), testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                  options_of(placement, mode, cuts));
  return trainer.fit(testing::small_images(100), options);
}

TEST(Pipeline, TrainsEvaluatesAndGoesOnAsOneWorkerDoes) {
  const FitResult alone = fit({}, nullptr, testing::small_fit(3));
  for (const Placement& placement : {Placement{1, 2}, Placement{2, 2}}) {
    for (const FitResult& own : on(placement, [&](kvstore::Mode* mode) {
           return fit(placement, mode, testing::small_fit(3));
         })) {
      EXPECT_EQ(own.params_sha256, alone.params_sha256);
      EXPECT_EQ(own.train_loss, alone.train_loss);
      EXPECT_EQ(own.validation.loss, alone.validation.loss);
      EXPECT_EQ(own.validation.accuracy, alone.validation.accuracy);
    }
    // Two epochs of a pipeline, then the rest by one worker; and the other way round.
    const testing::TemporaryFolder folder("pipeline");
    FitOptions part = testing::small_fit(2), rest = testing::small_fit(3);
    part.checkpoints = rest.checkpoints = folder.path() + "/a";
    rest.resume = true;
    on(placement, [&](kvstore::Mode* mode) { return fit(placement, mode, part); });
    EXPECT_EQ(fit({}, nullptr, rest).params_sha256, alone.params_sha256);
    part.checkpoints = rest.checkpoints = folder.path() + "/b";
    fit({}, nullptr, part);
    for (const FitResult& own :
         on(placement, [&](kvstore::Mode* mode) { return fit(placement, mode, rest); })) {
      EXPECT_EQ(own.resumed_from, 8);
      EXPECT_EQ(own.params_sha256, alone.params_sha256);
    }
  }
}

// "3" is a dropout, of which an evaluation computes nothing.
TEST(Pipeline, EvaluatesWhatASegmentPassesOn) {
  const std::vector<std::string> cuts{"3", "4"};
  const FitResult alone = fit({}, nullptr, testing::small_fit(1), cuts);
  for (const int stages : {2, 3})
    for (const FitResult& own : on({1, stages}, [&](kvstore::Mode* mode) {
           FitOptions options = testing::small_fit(1);
           options.metrics = {std::make_shared<nn::Accuracy>()};
           return fit({1, stages}, mode, options, cuts);
         })) {
      EXPECT_EQ(own.params_sha256, alone.params_sha256);
      EXPECT_EQ(own.validation.loss, alone.validation.loss);
      EXPECT_EQ(own.validation.accuracy, alone.validation.accuracy);
      EXPECT_EQ(own.validation.metrics.at(0).second, alone.validation.accuracy);
      EXPECT_EQ(own.peak_memory_mb_by_worker.size(), static_cast<std::size_t>(stages));
      ASSERT_TRUE(own.bubble.has_value());
      EXPECT_TRUE(*own.bubble >= 0.0 && *own.bubble < 1.0) << *own.bubble;
    }
  EXPECT_FALSE(alone.bubble.has_value());
}

TEST(Pipeline, OfTooManyStagesIsRefused) {
  testing::as_ranks(3, [](comm::Communicator& communicator) {
    EXPECT_EQ(message_of<InvalidArgument>([&] {
                kvstore::staged_mode(communicator, cluster::workers_of(communicator), 2);
              }),
              "pipeline: 3 workers cannot be pipelines of 2 stages each: choose a multiple");
  });
  for (const std::string& message : on({1, 4}, [](kvstore::Mode* mode) {
         return message_of<InvalidArgument>([&] { fit({}, mode, testing::small_fit(1)); });
       }))
    EXPECT_EQ(message,
              "train: a pipeline of 4 workers needs as many segments, the net is cut into 3");
}

// A stage keeps its own parameters and rule state alone.
TEST(Pipeline, DividesWhatAWorkerKeeps) {
  const auto bytes = [](kvstore::Mode* mode) {
    const auto wide = [] { return nn::dense(256, {.inputs = 256, .activation = "relu"}); };
    const auto net = nn::sequential(wide(), wide(), wide(), wide());
    net->initialize();
    StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), optim::adam({}),
                      {{{2, 256}, DType::float32, {}}, {{2}, DType::int64, {}}},
                      {.shards = 4, .mode = mode, .cuts = {"2"}});
    return engine.step_bytes();
  };
  const std::size_t alone = bytes(nullptr);
  for (const std::size_t own : on({1, 2}, bytes))
    EXPECT_LT(static_cast<double>(own), 0.6 * static_cast<double>(alone));
}

}  // namespace
}  // namespace lockstep::train
