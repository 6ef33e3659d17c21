// SPDX-License-Identifier: Apache-2.0
// Workers that have a stage of the net each: the bits of one that has all of it.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/loss.h"
#include "lockstep/train/detail/predict_graph.h"
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

struct PipelinePlacement {
  int replicas = 1, stages = 1;
  parallel::ScheduleKind schedule = parallel::ScheduleKind::one_f_one_b;
  bool recompute = false;
  int threads = 1;
};

// What one worker of it has in the end: they have the same.
template <class Work>
auto on(const PipelinePlacement& placement, const Work& work) {
  using Result = decltype(work(static_cast<kvstore::Mode*>(nullptr)));
  std::vector<Result> results(static_cast<std::size_t>(placement.replicas * placement.stages));
  testing::as_ranks(placement.replicas * placement.stages, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::mesh_mode(communicator, cluster::workers_of(communicator),
                                         {.stages = placement.stages});
    results[static_cast<std::size_t>(communicator.rank())] = work(mode.get());
  });
  return results;
}

constexpr std::int64_t kPipelineShards = 5, kPipelineSteps = 3;

struct PipelineOutcome {
  std::string sha256;
  std::vector<double> losses;
  Snapshot snapshot;
};

PipelineOutcome train_placed_chain(
    std::uint64_t seed, const PipelinePlacement& placement, kvstore::Mode* mode,
    const optim::OptimizerPtr& rule = optim::lamb({.learning_rate = 0.01})) {
  const auto net = std::make_shared<RandomChain>(seed);
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), rule, testing::cut_fields(),
                    {.shards = kPipelineShards,
                     .threads = placement.threads,
                     .seed = 7,
                     .mode = mode,
                     .cuts = {"1", "3", "4", "6"},
                     .schedule = placement.schedule,
                     .recompute = placement.recompute});
  PipelineOutcome outcome;
  outcome.losses = testing::run_cut_steps(engine, kPipelineSteps);
  outcome.sha256 = engine.params_sha256();
  outcome.snapshot = engine.snapshot();
  return outcome;
}

void expect_same_tensors(const std::vector<io::NamedTensor>& a,
                         const std::vector<io::NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const auto found =
        std::find_if(b.begin(), b.end(), [&](const auto& x) { return x.first == name; });
    ASSERT_NE(found, b.end()) << name;
    EXPECT_EQ(tensor.to_vector<float>(), found->second.to_vector<float>()) << name;
  }
}

void expect_bits_of_one_worker(std::uint64_t seed,
                               const std::vector<PipelinePlacement>& placements) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const PipelineOutcome alone = train_placed_chain(seed, {}, nullptr);
  for (const PipelinePlacement& placement : placements) {
    SCOPED_TRACE(fmt::format("{} x {}, threads: {}", placement.replicas, placement.stages,
                             placement.threads));
    for (const PipelineOutcome& own : on(placement, [&](kvstore::Mode* mode) {
           return train_placed_chain(seed, placement, mode);
         })) {
      EXPECT_EQ(own.sha256, alone.sha256);
      EXPECT_EQ(own.losses, alone.losses);
      expect_same_tensors(own.snapshot.slots, alone.snapshot.slots);
    }
  }
}

TEST(Pipeline, OfAnyShapeHasTheBitsOfOneWorker) {
  using Kind = parallel::ScheduleKind;
  for (std::uint64_t k = 0; k < 3; ++k)
    expect_bits_of_one_worker(testing::seed_of_this_run() + k, {{1, 2},
                                                                {2, 1},
                                                                {2, 2},
                                                                {1, 3},
                                                                {3, 2},
                                                                {1, 5},
                                                                {1, 2, Kind::gpipe},
                                                                {1, 3, Kind::one_f_one_b, true},
                                                                {2, 2, Kind::gpipe, true},
                                                                {1, 2, Kind::zero_bubble},
                                                                {2, 2, Kind::zero_bubble},
                                                                {1, 5, Kind::zero_bubble},
                                                                {1, 3, Kind::zero_bubble, true}});
}

TEST(Pipeline, OfSeveralThreadsHasTheBitsOfOneWorker) {
  using Kind = parallel::ScheduleKind;
  expect_bits_of_one_worker(testing::seed_of_this_run(), {{1, 2, Kind::one_f_one_b, false, 2},
                                                          {1, 3, Kind::gpipe, false, 3},
                                                          {2, 2, Kind::zero_bubble, false, 2},
                                                          {1, 2, Kind::one_f_one_b, true, 3},
                                                          {1, 5, Kind::zero_bubble, true, 2},
                                                          {1, 2, Kind::gpipe, true, 8}});
}

// Each stage's threads meet those of its neighbours.
TEST(Pipeline, OfStagesWithMoreThreadsAndFewerComputesWithTheFewest) {
  const std::uint64_t seed = testing::seed_of_this_run();
  const PipelineOutcome alone = train_placed_chain(seed, {}, nullptr);
  std::atomic<int> rank = 0;
  for (const PipelineOutcome& own : on({1, 3}, [&](kvstore::Mode* mode) {
         return train_placed_chain(seed, {.threads = 1 + ++rank}, mode);
       }))
    EXPECT_EQ(own.sha256, alone.sha256);
}

// Far below the gradients' own norm, so that each step is scaled by it.
TEST(Pipeline, ClipsByTheNormOfAllGradients) {
  const std::uint64_t seed = testing::seed_of_this_run();
  const auto clipped = [] { return optim::adam({.learning_rate = 0.01, .clip_norm = 1e-3}); };
  const PipelineOutcome alone = train_placed_chain(seed, {}, nullptr, clipped());
  EXPECT_NE(alone.sha256, train_placed_chain(seed, {}, nullptr, optim::adam({})).sha256);
  for (const PipelinePlacement& placement :
       {PipelinePlacement{1, 2}, PipelinePlacement{2, 2}, PipelinePlacement{1, 5},
        PipelinePlacement{1, 3, parallel::ScheduleKind::zero_bubble}})
    for (const PipelineOutcome& own : on(placement, [&](kvstore::Mode* mode) {
           return train_placed_chain(seed, placement, mode, clipped());
         })) {
      EXPECT_EQ(own.sha256, alone.sha256);
      expect_same_tensors(own.snapshot.slots, alone.snapshot.slots);
    }
}

TrainerOptions options_of(const PipelinePlacement& placement, kvstore::Mode* mode,
                          const std::vector<std::string>& cuts) {
  return {.global_batch = 24,
          .shards = 8,
          .seed = 3,
          .mesh = {.cuts = cuts},
          .schedule = placement.schedule,
          .recompute = placement.recompute,
          .mode = mode};
}

FitResult fit_placed(const PipelinePlacement& placement, kvstore::Mode* mode,
                     const FitOptions& options, const std::vector<std::string>& cuts = {"1", "3"}) {
  Trainer trainer(testing::small_net(), testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                  options_of(placement, mode, cuts));
  return trainer.fit(testing::small_images(100), options);
}

TEST(Pipeline, TrainsEvaluatesAndGoesOnAsOneWorkerDoes) {
  const FitResult alone = fit_placed({}, nullptr, testing::small_fit(3));
  for (const PipelinePlacement& placement : {PipelinePlacement{1, 2}, PipelinePlacement{2, 2}}) {
    for (const FitResult& own : on(placement, [&](kvstore::Mode* mode) {
           return fit_placed(placement, mode, testing::small_fit(3));
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
    on(placement, [&](kvstore::Mode* mode) { return fit_placed(placement, mode, part); });
    EXPECT_EQ(fit_placed({}, nullptr, rest).params_sha256, alone.params_sha256);
    part.checkpoints = rest.checkpoints = folder.path() + "/b";
    fit_placed({}, nullptr, part);
    for (const FitResult& own :
         on(placement, [&](kvstore::Mode* mode) { return fit_placed(placement, mode, rest); })) {
      EXPECT_EQ(own.resumed_from, 8);
      EXPECT_EQ(own.params_sha256, alone.params_sha256);
    }
  }
}

// "3" is a dropout, of which an evaluation computes nothing.
TEST(Pipeline, EvaluatesWhatASegmentPassesOn) {
  const std::vector<std::string> cuts{"3", "4"};
  const FitResult alone = fit_placed({}, nullptr, testing::small_fit(1), cuts);
  for (const int stages : {2, 3})
    for (const FitResult& own : on({1, stages}, [&](kvstore::Mode* mode) {
           FitOptions options = testing::small_fit(1);
           options.metrics = {std::make_shared<nn::Accuracy>()};
           return fit_placed({1, stages}, mode, options, cuts);
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

// Training has a block that predict mode leaves out, with which a segment begins; predict mode has
// one that training leaves out, and may call two in another order.
class OtherInPredict final : public nn::Block {
 public:
  explicit OtherInPredict(bool swaps) : swaps_(swaps) {}
  Tensor forward(const Tensor& images) override {
    const Tensor x = (*first_)(images);
    if (autograd::is_training()) return (*head_)((*right_)((*left_)((*train_)(x))));
    if (swaps_) return (*head_)((*left_)((*predict_)((*right_)(x))));
    return (*head_)((*right_)((*predict_)((*left_)(x))));
  }

 private:
  static std::shared_ptr<nn::Dense> layer(std::int64_t inputs = 8, std::int64_t units = 8) {
    return nn::dense(units, {.inputs = inputs, .activation = "relu"});
  }
  bool swaps_;
  std::shared_ptr<nn::Dense> first_ = add_child("first", layer(64));
  std::shared_ptr<nn::Dense> train_ = add_child("train", layer());
  std::shared_ptr<nn::Dense> left_ = add_child("left", layer());
  std::shared_ptr<nn::Dense> right_ = add_child("right", layer());
  std::shared_ptr<nn::Dense> predict_ = add_child("predict", layer());
  std::shared_ptr<nn::Dense> head_ = add_child("head", layer(8, testing::kClasses));
};

const std::vector<std::string> kTrainingCuts{"train", "right", "head"};

TEST(Pipeline, EvaluatesANetThatHasOtherBlocksInPredictMode) {
  for (const bool swaps : {false, true}) {
    const auto run = [&](int stages, kvstore::Mode* mode) {
      Trainer trainer(std::make_shared<OtherInPredict>(swaps), testing::cross_entropy(),
                      optim::sgd({.learning_rate = 0.05}),
                      options_of({1, stages}, mode, kTrainingCuts));
      return trainer.fit(testing::small_images(100), testing::small_fit(1));
    };
    const FitResult alone = run(1, nullptr);
    for (const int stages : {2, 3, 4})
      for (const std::string& message : on({1, stages}, [&](kvstore::Mode* mode) {
             return message_of<Error>([&] {
               const FitResult own = run(stages, mode);
               EXPECT_EQ(own.params_sha256, alone.params_sha256);
               EXPECT_EQ(own.validation.loss, alone.validation.loss);
               EXPECT_EQ(own.validation.accuracy, alone.validation.accuracy);
             });
           }))
        EXPECT_EQ(message, "nothing was thrown") << stages << " stages";
  }
}

// A segment whose first block is left out is not taken by the next one's.
TEST(Pipeline, EvaluatesBlocksInTheSegmentsWhereTrainingCallsThem) {
  OtherInPredict net(false);
  net.initialize(nn::init::fan_in(), 3);
  const std::vector<TensorInfo> fields =
      data::infos_of({Tensor::zeros({4, 1, 8, 8}), Tensor::zeros({4}, DType::int64)});
  const detail::PredictGraph predict =
      detail::trace_predict(net, testing::cross_entropy(), {}, fields, kTrainingCuts);
  std::vector<std::int32_t> segments;
  for (const Cell& cell : predict.cells)
    if (segments.empty() || segments.back() != cell.segment) segments.push_back(cell.segment);
  EXPECT_EQ(segments, (std::vector<std::int32_t>{0, 2, 3}));
}

TEST(Pipeline, OfTooManyStagesIsRefused) {
  testing::as_ranks(3, [](comm::Communicator& communicator) {
    EXPECT_EQ(
        message_of<InvalidArgument>([&] {
          kvstore::mesh_mode(communicator, cluster::workers_of(communicator), {.stages = 2});
        }),
        "mesh: 3 workers cannot be replicas of 2 each (stages: 2, tensor: 1): choose a multiple");
  });
  for (const std::string& message : on({1, 4}, [](kvstore::Mode* mode) {
         return message_of<InvalidArgument>([&] { fit_placed({}, mode, testing::small_fit(1)); });
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
