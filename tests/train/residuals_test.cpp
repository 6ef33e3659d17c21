// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/comm/transports/in_process.h"
#include "lockstep/kvstore/allreduce.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/small_run.h"

// What workers that compress their gradients have not sent yet, when a run goes on with as many
// workers, or with another number of them.
namespace lockstep::train {
namespace {

using testing::message_of;

constexpr std::int64_t kResidualShards = 8, kResidualShardBatch = 3;

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// What an engine has after some steps; rank 0's residuals are everybody's.
struct CompressedState {
  NamedTensors parameters, slots, residuals;
  std::string sha256;
};

data::Fields compressed_shard_batch(std::int64_t step, std::int64_t shard) {
  const RandomScope draws(
      random_key(7, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
  return {normal({kResidualShardBatch, 1, 8, 8}),
          randint(0, testing::kClasses, {kResidualShardBatch})};
}

void run_steps(StepEngine& engine, std::int64_t first, std::int64_t end) {
  for (std::int64_t step = first; step < end; ++step) {
    std::vector<data::Fields> shards;
    for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
      shards.push_back(compressed_shard_batch(step, s));
    engine.run(step, 0.05, shards);
  }
}

CompressedState train_compressed(kvstore::Mode& mode, const CompressedState* before,
                                 std::int64_t first, std::int64_t end) {
  const nn::BlockPtr net = testing::small_net();
  net->initialize(nn::init::fan_in(), 3);
  EngineOptions options{.shards = kResidualShards, .seed = 3};
  options.mode = &mode;
  options.bucket_bytes = 256;
  StepEngine engine(net, testing::cross_entropy(), optim::sgd({.momentum = 0.9}),
                    data::infos_of(compressed_shard_batch(0, 0)), options);
  if (before != nullptr) {
    for (const auto& [name, tensor] : before->parameters) net->parameter(name).set_data(tensor);
    engine.load(*net);
    engine.set_slots(before->slots);
    engine.set_residuals(before->residuals);
  }
  run_steps(engine, first, end);
  CompressedState state{{}, engine.slots(), engine.residuals(), engine.params_sha256()};
  engine.store(*net);
  for (const auto& [name, parameter] : net->parameters())
    state.parameters.emplace_back(name, parameter.data().copy());
  return state;
}

// Rank 0's state after steps [first, end) of so many workers.
CompressedState run_compressed(int workers, const char* compression, const CompressedState* before,
                               std::int64_t first, std::int64_t end) {
  std::vector<CompressedState> states(static_cast<std::size_t>(workers));
  testing::as_ranks(workers, [&](comm::Communicator& communicator) {
    kvstore::AllReduceOptions options;
    options.compression = kvstore::parse_compression(compression);
    const auto mode = kvstore::allreduce_mode(communicator, options);
    states[static_cast<std::size_t>(communicator.rank())] =
        train_compressed(*mode, before, first, end);
  });
  for (const CompressedState& state : states) EXPECT_EQ(state.sha256, states[0].sha256);
  return states[0];
}

std::vector<float> values(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [own, tensor] : tensors)
    if (own == name) return tensor.to_vector<float>();
  ADD_FAILURE() << "there is no " << name;
  return {};
}

// By the definition: the residuals of old workers r, r + W, r + 2 W ... added in that order.
std::vector<float> dealt(const CompressedState& before, std::size_t old_workers, std::size_t rank,
                         std::size_t workers, const std::string& parameter) {
  std::vector<float> sum(values(before.residuals, "residual0/" + parameter).size());
  for (std::size_t old = rank; old < old_workers; old += workers) {
    const auto part = values(before.residuals, fmt::format("residual{}/{}", old, parameter));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

std::vector<std::string> learning_parameters(const CompressedState& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state.slots) names.push_back(name.substr(name.find('/') + 1));
  return names;
}

TEST(Residuals, AreDealtToAnyNumberOfWorkersAndNoneIsLost) {
  const CompressedState before = run_compressed(3, "2bit:0.05", nullptr, 0, 3);
  ASSERT_EQ(before.residuals.size(), 3 * learning_parameters(before).size());
  for (const std::size_t workers : {1U, 2U, 3U, 5U, 8U}) {
    const CompressedState after =
        run_compressed(static_cast<int>(workers), "2bit:0.05", &before, 3, 3);
    ASSERT_EQ(after.residuals.size(), workers * learning_parameters(before).size());
    for (std::size_t rank = 0; rank < workers; ++rank)
      for (const std::string& name : learning_parameters(before))
        EXPECT_EQ(values(after.residuals, fmt::format("residual{}/{}", rank, name)),
                  dealt(before, 3, rank, workers, name))
            << workers << " workers, rank " << rank << ", " << name;
  }
}

TEST(Residuals, SomethingWaitsInThem) {
  const CompressedState before = run_compressed(2, "2bit:0.05", nullptr, 0, 3);
  const std::vector<float> waiting = values(before.residuals, "residual1/0.weight");
  EXPECT_TRUE(std::any_of(waiting.begin(), waiting.end(), [](float v) { return v != 0.0F; }));
}

TEST(Residuals, ARunThatGoesOnWithAsManyWorkersHasTheBitsOfOneThatNeverStopped) {
  for (const char* compression : {"1bit", "2bit", "2bit:0.05", "topk:0.1", "fp16"})
    for (const int workers : {1, 3}) {
      const CompressedState half = run_compressed(workers, compression, nullptr, 0, 3);
      EXPECT_EQ(run_compressed(workers, compression, &half, 3, 6).sha256,
                run_compressed(workers, compression, nullptr, 0, 6).sha256)
          << compression << ", " << workers << " workers";
    }
}

TEST(Residuals, ARunThatGoesOnWithOtherWorkersHasTheSameBitsEachTime) {
  const CompressedState before = run_compressed(3, "1bit", nullptr, 0, 3);
  for (const int workers : {2, 5})
    EXPECT_EQ(run_compressed(workers, "1bit", &before, 3, 6).sha256,
              run_compressed(workers, "1bit", &before, 3, 6).sha256);
  CompressedState without = before;
  without.residuals.clear();
  EXPECT_NE(run_compressed(2, "1bit", &before, 3, 6).sha256,
            run_compressed(2, "1bit", &without, 3, 6).sha256);
}

TEST(Residuals, ThatLackAParameterAreRefused) {
  CompressedState before = run_compressed(1, "1bit", nullptr, 0, 1);
  before.residuals[0].first = "residual0/other";
  const std::string name = learning_parameters(before).front();
  comm::InProcessGroup group({"here"});
  comm::Communicator communicator(group.connect(0));
  kvstore::AllReduceOptions options;
  options.compression = kvstore::parse_compression("1bit");
  const auto mode = kvstore::allreduce_mode(communicator, options);
  EXPECT_EQ(message_of<Corrupt>([&] { train_compressed(*mode, &before, 1, 1); }),
            "train: the checkpoint has no residual0/" + name);
}

}  // namespace
}  // namespace lockstep::train
