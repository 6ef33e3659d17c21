// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/cli/bench_step.h"
#include "lockstep/train/compiled_step.h"

namespace lockstep::cli {
namespace {

class RecipeRunner final : public StepRunner {
 public:
  RecipeRunner(const Recipe& recipe, DType compute)
      : step_(recipe, options_for(compute)),
        data_(step_.random_data(1)),
        labels_(step_.random_labels(1)) {
    batch = step_.batch();
    flops_per_sample = step_.flops_per_sample();
    parameter_bytes = step_.parameter_bytes();
    step_bytes = step_.step_bytes();
  }

  void step() override { step_.run_blind(data_, labels_); }

 private:
  static StepOptions options_for(DType compute) {
    StepOptions options;
    options.compile.compute = compute;
    return options;
  }

  CompiledStep step_;
  Tensor data_, labels_;
};

}  // namespace

std::unique_ptr<StepRunner> make_step_runner(const std::string& model, const std::string& dtype) {
  const Recipe& recipe = find_recipe(model);
  return std::make_unique<RecipeRunner>(recipe, dtype_from_name(dtype));
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.emplace_back(recipe.name);
  return names;
}

}  // namespace lockstep::cli
