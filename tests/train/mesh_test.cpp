// SPDX-License-Identifier: Apache-2.0
// Segments and slices at once: workers that have a cell of the net each, which is some slices of
// some segments, have the bits of one that has all of it.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/loss.h"
#include "lockstep/optim/optimizers.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"
#include "tests/train/cut_nets.h"
#include "tests/train/sliced_nets.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;
using testing::SliceTask;
using testing::words_task;
using Kind = parallel::ScheduleKind;

struct MeshPlace {
  int data = 1, pipeline = 1, tensor = 1;
  Kind schedule = Kind::one_f_one_b;
  bool recompute = false;
  int threads = 1;
};

std::string text_of(const MeshPlace& place) {
  return fmt::format("data={},pipeline={},tensor={}, schedule {}, recompute {}, threads {}",
                     place.data, place.pipeline, place.tensor, to_string(place.schedule),
                     place.recompute, place.threads);
}

// What is computed: the logical mesh, whoever has its cells.
struct LogicalMesh {
  std::vector<std::string> cuts;
  std::int64_t slices = 2, shards = 3;
  std::function<optim::OptimizerPtr()> rule = [] { return optim::adam({.learning_rate = 0.01}); };
  DType compute = DType::float32;
  std::size_t bucket_bytes = 4 << 20;
};

struct MeshOutcome {
  std::string sha256;
  std::vector<double> losses;
  Snapshot snapshot;
};

constexpr std::int64_t kMeshSteps = 3;

MeshOutcome train_mesh(const SliceTask& task, const LogicalMesh& mesh, const MeshPlace& place,
                       kvstore::Mode* mode) {
  const nn::BlockPtr net = task.net();
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), mesh.rule(), task.fields,
                    {.shards = mesh.shards,
                     .threads = place.threads,
                     .seed = 7,
                     .compile = {.compute = mesh.compute},
                     .mode = mode,
                     .bucket_bytes = mesh.bucket_bytes,
                     .cuts = mesh.cuts,
                     .slices = mesh.slices,
                     .schedule = place.schedule,
                     .recompute = place.recompute});
  MeshOutcome outcome;
  for (std::int64_t step = 0; step < kMeshSteps; ++step) {
    std::vector<data::Fields> batches;
    for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
      batches.push_back(task.batch(step, s));
    outcome.losses.push_back(engine.run(step, 0.01, batches).loss);
  }
  outcome.sha256 = engine.params_sha256();
  outcome.snapshot = engine.snapshot();
  return outcome;
}

// By each of the placement's workers.
template <class Work>
void on_cells(const MeshPlace& place, const Work& work) {
  testing::as_ranks(place.data * place.pipeline * place.tensor, [&](comm::Communicator& job) {
    const std::string message = message_of<Error>([&] {
      const auto mode = kvstore::mesh_mode(job, cluster::workers_of(job),
                                           {.stages = place.pipeline, .tensor = place.tensor},
                                           {.timeout = std::chrono::seconds(60)});
      work(mode.get());
    });
    EXPECT_EQ(message, "nothing was thrown") << "rank " << job.rank();
  });
}

void expect_equal_tensors(const std::vector<io::NamedTensor>& a,
                          const std::vector<io::NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  const std::map<std::string, Tensor> by_name(b.begin(), b.end());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    EXPECT_EQ(tensor.to_vector<float>(), by_name.at(name).to_vector<float>()) << name;
  }
}

void expect_one_result(const SliceTask& task, const LogicalMesh& mesh,
                       const std::vector<MeshPlace>& places) {
  const MeshOutcome one = train_mesh(task, mesh, {}, nullptr);
  for (const MeshPlace& place : places) {
    SCOPED_TRACE(text_of(place));
    on_cells(place, [&](kvstore::Mode* mode) {
      const MeshOutcome placed = train_mesh(task, mesh, place, mode);
      EXPECT_EQ(placed.sha256, one.sha256);
      EXPECT_EQ(placed.losses, one.losses);
      expect_equal_tensors(placed.snapshot.parameters, one.snapshot.parameters);
      expect_equal_tensors(placed.snapshot.slots, one.snapshot.slots);
    });
  }
}

// Both cuts are where a block's own values cross; the second one between the two halves of a pair,
// so that slices' parts go from stage to stage.
const std::vector<std::string> kWordsCuts{"block.mlp", "block.mlp.fc2"};

TEST(Mesh, OfAnyPlacementHasTheBitsOfOneWorker) {
  for (const bool tied : {false, true})
    expect_one_result(words_task(tied), {.cuts = kWordsCuts},
                      {{1, 1, 2},
                       {1, 2, 1},
                       {1, 2, 2},
                       {2, 1, 2},
                       {2, 2, 1},
                       {1, 3, 2},
                       {2, 2, 2},
                       {3, 2, 1},
                       {1, 2, 2, Kind::gpipe},
                       {1, 3, 2, Kind::zero_bubble},
                       {1, 2, 2, Kind::one_f_one_b, true},
                       {1, 2, 2, Kind::zero_bubble, true},
                       {1, 2, 2, Kind::one_f_one_b, false, 3},
                       {2, 2, 2, Kind::zero_bubble, false, 2}});
}

// 3 segments on 2 stages, 3 slices on 2 workers, 5 shards on 2 replicas.
TEST(Mesh, OfUnevenGroupsHasTheBitsOfOneWorker) {
  expect_one_result(words_task(true), {.cuts = kWordsCuts, .slices = 3, .shards = 5},
                    {{1, 2, 2}, {2, 2, 2}, {1, 3, 3}, {2, 1, 2, Kind::one_f_one_b, false, 2}});
}

TEST(Mesh, WithDropoutOrInHalfPrecisionHasTheBitsOfOneWorker) {
  expect_one_result(words_task(false, 0.25), {.cuts = kWordsCuts}, {{1, 2, 2}, {1, 3, 2}});
  expect_one_result(words_task(false), {.cuts = kWordsCuts, .compute = DType::bfloat16},
                    {{1, 2, 2}});
}

// Norms are of all gradients, or of whole parameters: each piece counts once, in one order.
TEST(Mesh, WithRulesThatMeasureHasTheBitsOfOneWorker) {
  const std::vector<std::function<optim::OptimizerPtr()>> rules{
      [] { return optim::sgd({.learning_rate = 0.1, .momentum = 0.9, .clip_norm = 0.05}); },
      [] { return optim::lamb({.learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 0.5}); },
      [] { return optim::lars({.learning_rate = 0.1, .weight_decay = 0.01}); }};
  for (const auto& rule : rules)
    expect_one_result(words_task(true), {.cuts = kWordsCuts, .slices = 4, .rule = rule},
                      {{1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 3, 2}});
}

// Gradients leave in a thread of their own, while slices meet and stages wait for each other.
TEST(Mesh, OfWorkersOnHostsOfTheirOwnHasTheBitsOfOneWorker) {
  const LogicalMesh mesh{.cuts = kWordsCuts, .slices = 3, .shards = 8, .bucket_bytes = 256};
  const MeshOutcome one = train_mesh(words_task(true), mesh, {}, nullptr);
  for (const MeshPlace& place :
       {MeshPlace{2, 2, 2}, MeshPlace{3, 1, 2, Kind::one_f_one_b, false, 2},
        MeshPlace{2, 3, 2, Kind::zero_bubble, true, 2}, MeshPlace{2, 2, 3, Kind::gpipe}}) {
    SCOPED_TRACE(text_of(place));
    std::vector<std::string> hosts;
    for (int rank = 0; rank < place.data * place.pipeline * place.tensor; ++rank)
      hosts.push_back("host" + std::to_string(rank));
    testing::as_ranks(hosts, [&](comm::Communicator& job) {
      const auto mode = kvstore::mesh_mode(job, cluster::workers_of(job),
                                           {.stages = place.pipeline, .tensor = place.tensor},
                                           {.timeout = std::chrono::seconds(60)});
      EXPECT_EQ(train_mesh(words_task(true), mesh, place, mode.get()).sha256, one.sha256);
    });
  }
}

// A gradient that is infinite in one cell: the step counts nowhere.
TEST(Mesh, WhoseStepIsNotFiniteSomewhereLeavesItEverywhere) {
  on_cells({1, 2, 2}, [](kvstore::Mode* mode) {
    const SliceTask task = testing::images_task(testing::small_cnn);
    const nn::BlockPtr net = task.net();
    net->initialize(nn::init::fan_in(), 3);
    StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), optim::adam({}), task.fields,
                      {.shards = 3, .seed = 7, .mode = mode, .cuts = {"7"}, .slices = 2});
    const std::string before = engine.params_sha256();
    std::vector<data::Fields> batches{task.batch(0, 0), task.batch(0, 1), task.batch(0, 2)};
    batches[1][0] = Tensor::full({4, 3, 8, 8}, std::numeric_limits<double>::infinity());
    EXPECT_FALSE(engine.run(0, 0.01, batches).finite);
    EXPECT_EQ(engine.params_sha256(), before);
    EXPECT_TRUE(
        engine.run(1, 0.01, std::vector{task.batch(1, 0), task.batch(1, 1), task.batch(1, 2)})
            .finite);
    EXPECT_NE(engine.params_sha256(), before);
  });
}

TEST(Mesh, OfConvolutionsAndBatchNormsHasTheBitsOfOneWorker) {
  expect_one_result(testing::images_task(testing::small_cnn), {.cuts = {"3", "7"}, .slices = 3},
                    {{1, 2, 2}, {1, 3, 3}, {3, 2, 1}, {1, 2, 3, Kind::zero_bubble}});
}

// What the way down gives is read again on the way up, whatever is cut between.
class SmallUNet final : public nn::Block {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor wide = (*down_)(x);
    const Tensor narrow = (*middle_)((*pool_)(wide));
    const Tensor up = (*up_)(concat({(*upsample_)(narrow), wide}, 1));
    return (*head_)(up);
  }

 private:
  static nn::BlockPtr layer(std::int64_t channels) {
    return nn::sequential(nn::conv2d(channels, {3, 3}, {.padding = 1}), nn::batch_norm(),
                          nn::relu(), nn::conv2d(channels, {3, 3}, {.padding = 1}), nn::relu());
  }
  nn::BlockPtr down_ = add_child("down", layer(4));
  nn::BlockPtr pool_ = add_child("pool", nn::max_pool2d({2, 2}));
  nn::BlockPtr middle_ = add_child("middle", layer(6));
  nn::BlockPtr upsample_ = add_child("upsample", nn::upsample({.scale = 2.0}));
  nn::BlockPtr up_ = add_child("up", layer(4));
  nn::BlockPtr head_ = add_child("head", nn::dense(5));
};

TEST(Mesh, OfAUNetWhoseSkipsCrossItsCutsHasTheBitsOfOneWorker) {
  expect_one_result(testing::images_task([] { return std::make_shared<SmallUNet>(); }),
                    {.cuts = {"middle", "up"}},
                    {{1, 2, 2}, {1, 3, 1}, {1, 3, 2}, {2, 2, 2, Kind::zero_bubble}});
}

SliceTask chain_task(std::uint64_t seed) {
  return {[=] { return std::make_shared<testing::RandomChain>(seed); }, testing::cut_fields(),
          testing::cut_batch};
}

// Nets, cuts, slices and placements as they come.
TEST(Mesh, OfRandomNetsAndPlacementsHasTheBitsOfOneWorker) {
  for (std::uint64_t k = 0; k < 8; ++k) {
    const std::uint64_t seed = testing::seed_of_this_run() + k;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 draw(seed);
    const auto up_to = [&](int most) {
      return 1 + static_cast<int>(draw() % static_cast<unsigned>(most));
    };
    LogicalMesh mesh{.cuts = {}, .slices = up_to(3) + 1, .shards = up_to(3) + 2};
    for (int block = 1; block < 7; ++block)
      if (draw() % 2 == 0) mesh.cuts.push_back(std::to_string(block));
    if (draw() % 2 == 0) mesh.rule = [] { return optim::lamb({.learning_rate = 0.01}); };
    const int segments = static_cast<int>(mesh.cuts.size()) + 1;
    std::vector<MeshPlace> places;
    for (int i = 0; i < 2; ++i)
      places.push_back({up_to(2), up_to(std::min(segments, 3)),
                        up_to(std::min(static_cast<int>(mesh.slices), 2)),
                        Kind{static_cast<std::uint8_t>(draw() % 3)}, draw() % 3 == 0, up_to(2)});
    expect_one_result(chain_task(seed), mesh, places);
  }
}

// A worker has what its cell needs alone.
TEST(Mesh, DividesWhatAWorkerKeeps) {
  const auto bytes = [](kvstore::Mode* mode) {
    const auto wide = [] { return nn::dense(256, {.inputs = 256, .activation = "relu"}); };
    const auto net = nn::sequential(wide(), wide(), wide(), wide());
    net->initialize();
    StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), optim::adam({}),
                      {{{2, 256}, DType::float32, {}}, {{2}, DType::int64, {}}},
                      {.shards = 4, .mode = mode, .cuts = {"2"}, .slices = 2});
    return engine.step_bytes();
  };
  const std::size_t alone = bytes(nullptr);
  on_cells({1, 2, 2}, [&](kvstore::Mode* mode) {
    EXPECT_LT(static_cast<double>(bytes(mode)), 0.32 * static_cast<double>(alone));
  });
}

// Each meets its neighbours and those with its stage's slices thread by thread.
TEST(Mesh, OfWorkersWithMoreThreadsAndFewerComputesWithTheFewest) {
  const LogicalMesh mesh{.cuts = kWordsCuts, .shards = 4};
  const MeshOutcome one = train_mesh(words_task(false), mesh, {}, nullptr);
  on_cells({1, 2, 2}, [&](kvstore::Mode* mode) {
    const MeshPlace own{.threads = 1 + mode->group().rank()};
    EXPECT_EQ(train_mesh(words_task(false), mesh, own, mode).sha256, one.sha256);
  });
}

FitResult fit_mesh(kvstore::Mode* mode, const FitOptions& options) {
  Trainer trainer(testing::small_net(), testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                  {.global_batch = 24,
                   .shards = 8,
                   .seed = 3,
                   .mesh = {.cuts = {"1", "3"}, .slices = 2},
                   .mode = mode});
  return trainer.fit(testing::small_images(100), options);
}

void expect_same_fit(const FitResult& own, const FitResult& alone) {
  EXPECT_EQ(own.params_sha256, alone.params_sha256);
  EXPECT_EQ(own.train_loss, alone.train_loss);
  EXPECT_EQ(own.validation.loss, alone.validation.loss);
  EXPECT_EQ(own.validation.accuracy, alone.validation.accuracy);
}

TEST(Mesh, TrainsEvaluatesAndGoesOnAsOneWorkerDoes) {
  const FitResult alone = fit_mesh(nullptr, testing::small_fit(3));
  for (const MeshPlace& place : {MeshPlace{1, 2, 2}, MeshPlace{2, 3, 2}, MeshPlace{2, 1, 2}}) {
    SCOPED_TRACE(text_of(place));
    on_cells(place, [&](kvstore::Mode* mode) {
      FitOptions options = testing::small_fit(3);
      options.metrics = {std::make_shared<nn::Accuracy>()};
      const FitResult own = fit_mesh(mode, options);
      expect_same_fit(own, alone);
      EXPECT_EQ(own.validation.metrics.at(0).second, alone.validation.accuracy);
    });
    // Two epochs of one placement, then the rest of another one.
    const testing::TemporaryFolder folder("mesh");
    FitOptions part = testing::small_fit(2), rest = testing::small_fit(3);
    rest.resume = true;
    part.checkpoints = rest.checkpoints = folder.path() + "/a";
    on_cells(place, [&](kvstore::Mode* mode) { fit_mesh(mode, part); });
    expect_same_fit(fit_mesh(nullptr, rest), alone);
    part.checkpoints = rest.checkpoints = folder.path() + "/b";
    fit_mesh(nullptr, part);
    on_cells(place, [&](kvstore::Mode* mode) {
      const FitResult own = fit_mesh(mode, rest);
      EXPECT_EQ(own.resumed_from, 8);
      expect_same_fit(own, alone);
    });
  }
}

TEST(Mesh, WithMoreWorkersThanCellsIsRefused) {
  testing::as_ranks(6, [](comm::Communicator& job) {
    EXPECT_EQ(message_of<InvalidArgument>([&] {
                kvstore::mesh_mode(job, cluster::workers_of(job), {.stages = 2, .tensor = 2});
              }),
              "mesh: 6 workers cannot be replicas of 4 each (stages: 2, tensor: 2): choose a "
              "multiple");
  });
  const auto refusal = [](const MeshPlace& place) {
    std::string said;
    on_cells(place, [&](kvstore::Mode* mode) {
      const std::string own = message_of<InvalidArgument>(
          [&] { train_mesh(words_task(false), {.cuts = {"ln"}}, place, mode); });
      if (mode->group().is_first()) said = own;
    });
    return said;
  };
  EXPECT_EQ(refusal({1, 3, 1}),
            "train: a pipeline of 3 workers needs as many segments, the net is cut into 2");
  EXPECT_EQ(refusal({1, 2, 3}), "train: 3 workers cannot share 2 slices: each needs one");
  EXPECT_EQ(refusal({4, 1, 2}), "train: 4 workers cannot share 3 shards: each needs one");
}

}  // namespace
}  // namespace lockstep::train
