// SPDX-License-Identifier: Apache-2.0
#include "bench/step_bench.h"
#include "lockstep/base/error.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/random_batch.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::bench {
namespace {

constexpr double kLearningRate = 0.01;

// The whole batch as one shard, on one thread.
class RecipeRunner final : public StepRunner {
 public:
  RecipeRunner(const recipes::Recipe& recipe, DType compute)
      : batch_{recipes::random_batch(recipe, recipe.bench_batch)} {
    const nn::BlockPtr net = recipe.net_without_dropout();
    net->initialize();
    train::EngineOptions options;
    options.shards = 1;
    options.compile.compute = compute;
    options.fields = recipe.roles();
    const auto rule = optim::sgd({.learning_rate = kLearningRate, .momentum = 0.9});
    engine_ = std::make_unique<train::StepEngine>(net, recipe.loss(), rule,
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

// fashion-lenet is mnist-lenet on other data: the same step; gpt-wide is char-gpt in another size.
std::vector<std::string> recipe_names() {
  std::vector<std::string> names = recipes::recipe_names();
  std::erase(names, "fashion-lenet");
  std::erase(names, "gpt-wide");
  return names;
}

}  // namespace lockstep::bench
