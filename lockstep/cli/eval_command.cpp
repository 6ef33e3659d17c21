// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_cache.h"
#include "lockstep/cli/data_limits.h"
#include "lockstep/cli/options.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/train/evaluate.h"

namespace lockstep::cli {
namespace {

struct EvalOptions {
  std::string run;
  std::string data;
  int threads = 0;  // 0: as many as cores
  bool json = false;
  DataLimits limits;
};

train::Evaluation evaluate(const recipes::TrainedModel& model, const EvalOptions& options) {
  recipes::RunConfig config = model.config;
  if (!options.data.empty()) config.data = options.data;
  apply_limits(config, options.limits);
  observe::Progress progress(observe::standard_error());
  const recipes::RecipeData data = recipes::open_run_data(
      config, {.cache = data_cache(), .codec = model.codec, .ratings = model.ratings}, progress);
  recipes::check_classes(config, *data.test, model.classes);
  train::EvaluateOptions how{.threads = options.threads > 0 ? options.threads : usable_threads(),
                             .metrics = model.recipe.metrics()};
  if (model.recipe.test_transform != nullptr) how.transform = model.recipe.test_transform();
  CompileOptions compile;
  compile.compute = dtype_from_name(config.dtype);
  return train::Evaluator(model.net, model.recipe.loss(), compile, model.recipe.roles())
      .run(*data.test, how);
}

int eval(const EvalOptions& options) {
  const recipes::TrainedModel model = recipes::load_model(options.run, print_warning);
  const train::Evaluation result = evaluate(model, options);
  if (options.json) {
    const nlohmann::ordered_json accuracy =
        result.has_accuracy ? nlohmann::ordered_json(result.accuracy) : nlohmann::ordered_json();
    nlohmann::ordered_json json{{"run", options.run},
                                {"recipe", model.recipe.name},
                                {"step", model.step},
                                {"samples", result.samples},
                                {"test_loss", result.loss},
                                {"test_accuracy", accuracy},
                                {"params_sha256", model.params_sha256}};
    for (const auto& [name, value] : result.metrics) json["test_" + name] = value;
    fmt::print("{}\n", json.dump());
  } else {
    std::string figures = fmt::format("loss {:.4f}", result.loss);
    if (result.has_accuracy) figures += fmt::format(", accuracy {:.4f}", result.accuracy);
    for (const auto& [name, value] : result.metrics)
      figures += fmt::format(", {} {:.4f}", name, value);
    fmt::print("{}: {} samples, {} (step {}, params_sha256 {})\n", model.recipe.name,
               result.samples, figures, model.step, model.params_sha256);
  }
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "Measure a trained model on test data");
  command->group(kModelGroup);
  command->add_option("run", options->run, "The run's folder")->type_name("RUNDIR")->required();
  command->add_option("--data", options->data, "Other data than the run's")
      ->type_name("DIR|FILE|synthetic")
      ->check(not_empty());
  add_count(*command, "Options", "--threads", options->threads, "T",
            "As many as cores that this process may use by default; never change the result", 1,
            kMostThreads);
  add_limits(*command, options->limits, "Options");
  command->add_flag("--json", options->json, "One JSON object on standard output");
  command->callback([&action, options] { action = [options] { return eval(*options); }; });
}

}  // namespace lockstep::cli
