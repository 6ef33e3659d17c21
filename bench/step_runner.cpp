// SPDX-License-Identifier: Apache-2.0
#include "bench/step_bench.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::bench {
namespace {

constexpr double kLearningRate = 0.01;

data::Fields random_batch(const recipes::Recipe& recipe) {
  const std::vector<TensorInfo> infos = recipe.fields(recipe.bench_batch);
  const RandomScope scope(random_key(1));
  const Shape& shape = infos[0].shape;
  return {recipe.input_range > 0 ? randint(0, recipe.input_range, shape) : uniform(shape),
          randint(0, recipe.classes, infos[1].shape)};
}

// The whole batch as one shard, on one thread.
class RecipeRunner final : public StepRunner {
 public:
  RecipeRunner(const recipes::Recipe& recipe, DType compute) : batch_{random_batch(recipe)} {
    const nn::BlockPtr net = recipe.net_without_dropout();
    net->initialize();
    train::EngineOptions options;
    options.shards = 1;
    options.compile.compute = compute;
    const auto rule = optim::sgd({.learning_rate = kLearningRate, .momentum = 0.9});
    engine_ = std::make_unique<train::StepEngine>(net, recipes::recipe_loss(), rule,
                                                  recipe.fields(recipe.bench_batch), options);
    batch = recipe.bench_batch;
    flops_per_sample = engine_->flops_per_sample();
    for (const auto& [name, parameter] : net->parameters())
      parameter_bytes += static_cast<std::size_t>(parameter.shape().numel()) * sizeof(float);
    step_bytes = engine_->step_bytes() - parameter_bytes;
  }

  void step() override { engine_->run(step_++, kLearningRate, batch_); }

 private:
  std::vector<data::Fields> batch_;
  std::unique_ptr<train::StepEngine> engine_;
  std::int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(const std::string& model, const std::string& dtype) {
  return std::make_unique<RecipeRunner>(recipes::find_recipe(model), dtype_from_name(dtype));
}

// fashion-lenet is mnist-lenet on other data: the same step.
std::vector<std::string> recipe_names() {
  std::vector<std::string> names = recipes::recipe_names();
  std::erase(names, "fashion-lenet");
  return names;
}

}  // namespace lockstep::bench
