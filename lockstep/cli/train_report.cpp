// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_report.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "lockstep/cli/command.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/observe/metrics_log.h"
#include "lockstep/observe/plot.h"
#include "lockstep/observe/text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000.0;
}

std::string data_name(const TrainOutcome& outcome) {
  return outcome.config.data.empty() ? outcome.recipe.dataset : outcome.config.data;
}

Json accuracy_of(const train::Evaluation& evaluation) {
  return evaluation.has_accuracy ? Json(evaluation.accuracy) : Json();
}

std::string plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", observe::format_count(count), what, count == 1 ? "" : "s");
}

std::string loss_plot(const observe::RunFolder& run) {
  std::vector<observe::CurvePoint> points;
  for (const observe::MetricsRow& row : observe::read_metrics(run.metrics_path()))
    for (const auto& [name, value] : row.values)
      if (name == "loss") points.push_back({static_cast<double>(row.step), value});
  return observe::plot_curve(points);
}

double parameter(const train::Learning& learning, const char* name) {
  const auto found = learning.parameters.find(name);
  return found == learning.parameters.end() ? 0.0 : found->second;
}

void add_learning(std::string& line, const train::Learning& learning,
                  const train::Learning& usual) {
  const auto add = [&](const char* name, const auto& value, const auto& default_value) {
    if (value != default_value) line += fmt::format(" {} {}", name, value);
  };
  add("--optimizer", learning.optimizer, usual.optimizer);
  add("--learning-rate", learning.learning_rate, usual.learning_rate);
  if (learning.parameters.contains("momentum"))
    add("--momentum", parameter(learning, "momentum"), parameter(usual, "momentum"));
  add("--weight-decay", parameter(learning, "wd"), parameter(usual, "wd"));
  add("--clip-norm", parameter(learning, "clip_norm"), parameter(usual, "clip_norm"));
  add("--schedule", learning.schedule, usual.schedule);
  add("--warm-up", learning.warm_up, usual.warm_up);
}

// A command that works as it stands, where the data set has files that can be asked about.
std::string predict_words(const TrainOutcome& outcome) {
  if (outcome.recipe.task == train::Task::characters) return "--prompt \"Call me \"";
  if (outcome.recipe.task == train::Task::texts) return "MAIL.txt";
  if (!outcome.config.data.empty() || outcome.recipe.sample_shape[0] != 1) return "PICTURE.png";
  return fmt::format("$({} data get {})/t10k-images-idx3-ubyte* | head", program_name(),
                     outcome.recipe.dataset);
}

std::string next_steps(const TrainOutcome& outcome) {
  return fmt::format(
      "try next:\n  {0} predict {1} {2}\n  {0} eval {1}\n  {0} train {3} --epochs {4}\n",
      program_name(), outcome.run, predict_words(outcome), outcome.config.recipe,
      2 * outcome.recipe.epochs);
}

}  // namespace

std::string outcome_json(const TrainOutcome& outcome) {
  const RunConfig& config = outcome.config;
  const train::FitResult& result = outcome.result;
  const Json json{{"recipe", config.recipe},
                  {"workers", outcome.workers},
                  {"threads", outcome.threads},
                  {"shards", config.shards},
                  {"global_batch", config.global_batch},
                  {"steps", result.steps},
                  {"epochs", result.epochs},
                  {"seconds", result.seconds},
                  {"samples_per_s", result.samples_per_s},
                  {"train_loss", result.train_loss},
                  {"train_accuracy", result.train_accuracy},
                  {"test_loss", result.validation.loss},
                  {"test_accuracy", accuracy_of(result.validation)},
                  {"params_sha256", result.params_sha256},
                  {"invariant", true},
                  {"seed", config.seed},
                  {"dtype", config.dtype},
                  {"data", data_name(outcome)},
                  {"run", outcome.run},
                  {"stopped", result.stopped},
                  {"resumed_from_step", result.resumed_from},
                  {"step_bytes", result.step_bytes},
                  {"peak_memory_mb", peak_memory_mb()}};
  return json.dump();
}

std::string outcome_text(const TrainOutcome& outcome, const observe::RunFolder& run,
                         const std::string& report) {
  const train::FitResult& result = outcome.result;
  std::string text = loss_plot(run);
  text += fmt::format("{}: {}, {} samples/s, train loss {}, test loss {}\n", outcome.config.recipe,
                      plural(result.steps, "step"), observe::format_rate(result.samples_per_s),
                      observe::format_value(result.train_loss),
                      observe::format_value(result.validation.loss));
  if (result.validation.has_accuracy)
    text += fmt::format("test accuracy {:.4f} ({} samples)\n", result.validation.accuracy,
                        observe::format_count(result.validation.samples));
  text += fmt::format("the same bits on any number of threads: params_sha256 {}\n",
                      result.params_sha256);
  if (!report.empty()) text += fmt::format("report: {}\n", report);
  return text + next_steps(outcome);
}

std::string train_command(const RunConfig& config) {
  const RunConfig usual = default_config(train::find_recipe(config.recipe));
  std::string line = "lockstep train " + config.recipe;
  const auto add = [&](const char* name, const auto& value, const auto& default_value) {
    if (value != default_value) line += fmt::format(" {} {}", name, value);
  };
  add("--data", config.data, usual.data);
  if (config.steps > 0)
    line += fmt::format(" --steps {}", config.steps);
  else
    add("--epochs", config.epochs, usual.epochs);
  add("--global-batch", config.global_batch, usual.global_batch);
  add("--shards", config.shards, usual.shards);
  add("--seed", config.seed, usual.seed);
  if (config.dtype == "bfloat16") line += " --bf16";
  if (config.skip_bad) line += " --skip-bad";
  add_learning(line, config.learning, usual.learning);
  return line;
}

}  // namespace lockstep::cli
