// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/train/step_engine.h"
#include "tests/tensor/test_device.h"
#include "tests/train/small_run.h"

namespace lockstep::testing {
namespace {

constexpr std::int64_t kDeviceShards = 4, kDeviceShardBatch = 3;

std::vector<TensorInfo> fields(const Device& device) {
  return {{{kDeviceShardBatch, 1, 8, 8}, DType::float32, device},
          {{kDeviceShardBatch}, DType::int64, device}};
}

std::vector<data::Fields> batch(std::uint32_t step) {
  std::vector<data::Fields> result;
  for (std::uint32_t s = 0; s < kDeviceShards; ++s) {
    const RandomScope draws(random_key(99, step, s));
    result.push_back(
        {normal({kDeviceShardBatch, 1, 8, 8}), randint(0, kClasses, {kDeviceShardBatch})});
  }
  return result;
}

struct Trained {
  std::vector<double> losses;
  std::string sha256;
  std::string probe;  // gradients of fixed input
  bool operator==(const Trained&) const = default;
};

// Batch norm, dropout, momentum: statistics, draws and slots are part of the step.
Trained train(const Device& device, int threads, const optim::OptimizerPtr& rule) {
  const nn::BlockPtr net = small_net();
  net->initialize(nn::init::fan_in(), 3);
  train::StepEngine engine(net, cross_entropy(), rule, fields(device),
                           {.shards = kDeviceShards, .threads = threads, .seed = 3});
  Trained result;
  for (std::uint32_t step = 0; step < 4; ++step) {
    const train::StepResult one = engine.run(step, 0.05, batch(step));
    EXPECT_TRUE(one.finite);
    result.losses.push_back(one.loss);
  }
  engine.store(*net);
  engine.load(*net);
  result.sha256 = engine.params_sha256();
  result.probe = engine.probe().results;
  return result;
}

TEST(StepOnADevice, GivesTheHostsBits) {
  const auto device = TestDevice::make();
  const auto rules = {optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                      optim::lamb({.learning_rate = 0.05})};
  for (const optim::OptimizerPtr& rule : rules) {
    const Trained host = train({}, 1, rule);
    EXPECT_EQ(train(device->device(), 1, rule), host);
    EXPECT_EQ(train(device->device(), 2, rule), host);
  }
}

TEST(StepOnADevice, ThatIsNotFiniteChangesNothingAndIsExplained) {
  const auto device = TestDevice::make();
  const nn::BlockPtr net = small_net();
  net->initialize(nn::init::fan_in(), 3);
  train::StepEngine engine(net, cross_entropy(), optim::sgd({.learning_rate = 0.05}),
                           fields(device->device()), {.shards = kDeviceShards, .seed = 3});
  const std::string before = engine.params_sha256();
  std::vector<data::Fields> bad = batch(0);
  bad[2][0].data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(engine.run(0, 0.05, bad).finite);
  EXPECT_EQ(engine.params_sha256(), before);
  EXPECT_EQ(engine.find_bad_op(0, bad), "the data of shard 2");
}

}  // namespace
}  // namespace lockstep::testing
