// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <sstream>

#include "bench/responder.h"
#include "bench/train_bench.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/random_batch.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::bench {
namespace {

constexpr int kWarmUpSteps = 3;
constexpr double kRate = 0.01;

// The shards' batches: one global batch of generated samples, cut where the shards are.
std::vector<data::Fields> generate(const recipes::Recipe& recipe, const TrainSide& side) {
  const data::Fields whole = recipes::random_batch(recipe, side.batch);
  const std::int64_t part = side.batch / side.shards;
  std::vector<data::Fields> shards;
  for (std::int64_t i = 0; i < side.shards; ++i) {
    data::Fields& shard = shards.emplace_back();
    for (const Tensor& field : whole)
      shard.push_back(slice_axis(field, 0, i * part, (i + 1) * part).contiguous());
  }
  return shards;
}

// The engine that `lockstep train` uses, on one batch again and again.
class Trained {
 public:
  explicit Trained(const TrainSide& side)
      : side_(side), recipe_(recipes::find_recipe(side.model)), shards_(generate(recipe_, side)) {
    const nn::BlockPtr net = recipe_.net_without_dropout();
    net->initialize(nn::init::fan_in(), 1);
    engine_ = std::make_unique<train::StepEngine>(
        net, recipe_.loss(), optim::sgd({.learning_rate = kRate, .momentum = 0.9}),
        recipe_.fields(side.batch / side.shards),
        train::EngineOptions{
            .shards = side.shards, .threads = side.threads, .seed = 1, .fields = recipe_.roles()});
  }

  double step() { return engine_->run(steps_++, kRate, shards_).loss; }

  double window(double seconds) {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t steps = 1;; ++steps) {
      loss_ = step();
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (spent.count() >= seconds) return static_cast<double>(steps * side_.batch) / spent.count();
    }
  }

  double loss() const { return loss_; }
  std::string params_sha256() const { return engine_->params_sha256(); }

 private:
  const TrainSide& side_;
  const recipes::Recipe& recipe_;
  std::vector<data::Fields> shards_;
  std::unique_ptr<train::StepEngine> engine_;
  std::int64_t steps_ = 0;
  double loss_ = 0.0;
};

void say(const Json& json) { std::cout << json.dump() << '\n' << std::flush; }

void converse(const TrainSide& side) {
  Trained trained(side);
  const double first = trained.step();
  for (int i = 0; i < kWarmUpSteps; ++i) trained.step();
  say({{"ready", side.model}, {"loss", first}, {"params_sha256", trained.params_sha256()}});
  for (std::string line; std::getline(std::cin, line);) {
    std::string word;
    double seconds = 1.0;
    std::istringstream(line) >> word >> seconds;
    const double rate = trained.window(seconds);
    say({{"samples_per_s", rate}, {"loss", trained.loss()}});
  }
}

}  // namespace

int serve_train(const TrainSide& side) {
  try {
    converse(side);
    return 0;
  } catch (const std::exception& error) {
    say({{"error", error.what()}});
    return 1;
  }
}

}  // namespace lockstep::bench
