// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "lockstep/base/processor.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_limits.h"
#include "lockstep/observe/metrics_log.h"
#include "lockstep/observe/plot.h"
#include "lockstep/observe/progress.h"
#include "lockstep/observe/text.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {
namespace {

// As wide as the terminal allows, sixty columns at most.
std::string loss_plot(const observe::RunFolder& run) {
  observe::BoundedCurve curve;
  observe::each_metrics_row(run.metrics_path(), [&](const observe::MetricsRow& row) {
    for (const auto& [name, value] : row.values)
      if (name == "loss") curve.add({static_cast<double>(row.step), value});
  });
  observe::PlotOptions options;
  options.columns = std::min(options.columns, observe::standard_error().width() - 1);
  const std::string plot = observe::plot_curve(curve.extremes(), options);
  return plot.empty() ? "" : "train loss\n" + plot;
}

double parameter(const recipes::Learning& learning, const char* name) {
  const auto found = learning.parameters.find(name);
  return found == learning.parameters.end() ? 0.0 : found->second;
}

void add_learning(std::string& line, const recipes::Learning& learning,
                  const recipes::Learning& usual) {
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

std::string model_words(const std::string& recipe) {
  return recipes::find_recipe(recipe).from_data ? "--model " + recipe : recipe;
}

std::string train_words(const recipes::RunConfig& config, std::int64_t workers) {
  const recipes::RunConfig usual = recipes::default_config(recipes::find_recipe(config.recipe));
  std::string line = "train " + model_words(config.recipe);
  const auto add = [&](const char* name, const auto& value, const auto& default_value) {
    if (value != default_value) line += fmt::format(" {} {}", name, value);
  };
  add("--data", shell_word(config.data), shell_word(usual.data));
  if (config.steps > 0)
    line += fmt::format(" --steps {}", config.steps);
  else
    add("--epochs", config.epochs, usual.epochs);
  add("--image-size", config.image_size, usual.image_size);
  add("--split", config.split, usual.split);
  add("--width", config.width, usual.width);
  add("--blocks", config.blocks, usual.blocks);
  add("--global-batch", config.global_batch, usual.global_batch);
  add("--shards", config.shards, usual.shards);
  add("--seed", config.seed, usual.seed);
  add("--eval-every", config.eval_every, usual.eval_every);
  if (workers > 1) line += fmt::format(" --workers {}", workers);
  if (config.dtype == "bfloat16") line += " --bf16";
  if (config.skip_bad) line += " --skip-bad";
  add("--max-pixels", config.max_pixels, usual.max_pixels);
  add("--max-inflated", config.max_inflated / kMegabyte, usual.max_inflated / kMegabyte);
  add("--kvstore", config.kvstore, usual.kvstore);
  if (config.servers > 1) line += fmt::format(" --servers {}", config.servers);
  add("--replicas", config.replicas, usual.replicas);
  if (config.kvstore == "ps_ssp") line += fmt::format(" --staleness {}", config.staleness);
  if (config.stale_gradients == "whole") line += " --stale-gradients whole";
  add("--algorithm", config.algorithm, usual.algorithm);
  add("--compression", config.compression, usual.compression);
  if (config.cuts.empty()) add("--segments", config.segments, usual.segments);
  add("--cuts", config.cuts, usual.cuts);
  add("--slices", config.slices, usual.slices);
  add("--slice-layers", config.slice_layers, usual.slice_layers);
  add_learning(line, config.learning, usual.learning);
  return line;
}

// Commands that work as they stand, where the data set has files that can be asked about; a model
// of generated texts cannot be asked at all.
std::string predict_words(const recipes::RunOutcome& outcome) {
  if (outcome.recipe.task == recipes::Task::characters) return "--prompt \"Call me \"";
  if (outcome.recipe.task == recipes::Task::texts) return "MAIL.txt";
  if (outcome.recipe.is_recommender())
    return outcome.config.data == "synthetic" ? "--user 1" : "--user USER";
  if (!outcome.config.data.empty() || outcome.recipe.sample_shape[0] != 1) return "PICTURE.png";
  return fmt::format("$({} data get {})/t10k-images-idx3-ubyte* | head", program_name(),
                     outcome.recipe.dataset);
}

// Instead of generated data: what there is to fetch, or one's own.
std::string own_data(const recipes::Recipe& recipe) {
  if (recipe.is_recommender()) return "RATINGS.csv";
  return recipe.from_data ? "DIR" : "";
}

std::string next_steps(const recipes::RunOutcome& outcome) {
  const std::string run = shell_word(outcome.run);
  const std::string& data = outcome.config.data;
  const bool generated = data == "synthetic";
  std::string text = "try next:\n";
  if (outcome.recipe.task == recipes::Task::images || outcome.recipe.is_recommender() || !generated)
    text += fmt::format("  {} predict {} {}\n", program_name(), run, predict_words(outcome));
  recipes::RunConfig longer = outcome.config;
  if (generated) longer.data = own_data(outcome.recipe);
  longer.epochs = 2 * std::max(longer.epochs, outcome.recipe.epochs);
  longer.steps = 0;
  text += fmt::format("  {0} eval {1}\n  {0} {2}\n", program_name(), run,
                      train_words(longer, outcome.workers));
  return text;
}

std::string kept_promise(const recipes::RunOutcome& outcome) {
  const train::FitResult& result = outcome.result;
  if (!result.same_bits) return "the workers' processors compute different bits";
  if (!result.same_isa) return "steps were computed with different instruction sets";
  return fmt::format("{} ({} instructions)",
                     recipes::promise_of(outcome.config, outcome.workers, result.resumed_from),
                     result.isa);
}

}  // namespace

std::string outcome_text(const recipes::RunOutcome& outcome, const observe::RunFolder& run,
                         const std::string& report) {
  const train::FitResult& result = outcome.result;
  std::string text = loss_plot(run);
  const std::string rate = result.steps == result.resumed_from
                               ? "which were done before"
                               : observe::format_rate(result.samples_per_s) + " samples/s";
  text += fmt::format("{}: {}, {}, train loss {}, test loss {}\n", outcome.config.recipe,
                      observe::format_things(result.steps, "step"), rate,
                      observe::format_value(result.train_loss),
                      observe::format_value(result.validation.loss));
  if (result.validation.has_accuracy)
    text += fmt::format("test accuracy {:.4f} ({})\n", result.validation.accuracy,
                        observe::format_things(result.validation.samples, "sample"));
  for (const auto& [name, value] : result.validation.metrics)
    text += fmt::format("test {} {:.4f} ({})\n", name, value,
                        observe::format_things(result.validation.samples, "sample"));
  text += fmt::format("{}: params_sha256 {}\n", kept_promise(outcome), result.params_sha256);
  if (!report.empty()) text += fmt::format("report: {}\n", report);
  return text + next_steps(outcome);
}

// Measuring the same thing twice differs by some percent.
std::string bfloat16_notice(double speedup, const std::string& isa) {
  constexpr double kSlower = 0.95;
  if (speedup >= kSlower) return {};
  return fmt::format(
      "--bf16 is slower than float32 here: with {} this recipe's largest products run at {:.2f} "
      "times the speed of float32; the run goes on",
      isa, speedup);
}

std::string train_command(const recipes::RunConfig& config, std::int64_t workers) {
  const bool is_lower = !config.isa.empty() &&
                        parse_instruction_set(config.isa) < usable_instruction_set(ask_processor());
  return (is_lower ? "LOCKSTEP_ISA=" + config.isa + " " : "") + "lockstep " +
         train_words(config, workers);
}

namespace {

// What a launcher says to its workers need not be said again.
std::string connect_words(const TrainOptions& options) {
  std::string line;
  const ConnectOptions& connect = options.connect;
  const bool is_told = options.launcher_connects && !options.launched_by.empty();
  if (connect.secure) line += " --secure";
  if (!connect.transport.empty() && !is_told) line += " --transport " + connect.transport;
  if (!connect.interface.empty()) line += " --interface " + shell_word(connect.interface);
  if (options.allow_different_bits) line += " --allow-different-bits";
  if (options.wait != TrainOptions().wait) line += fmt::format(" --wait {}", options.wait);
  return line;
}

// Servers do not see the run's folder.
std::string store_words(const TrainOptions& options) {
  if (options.job_servers.value_or(0) == 0) return {};
  std::string line;
  if (options.kvstore) line += " --kvstore " + *options.kvstore;
  if (options.replicas) line += fmt::format(" --replicas {}", *options.replicas);
  if (options.staleness) line += fmt::format(" --staleness {}", *options.staleness);
  if (options.stale_gradients) line += " --stale-gradients " + *options.stale_gradients;
  return line;
}

}  // namespace

// All that is not in the run's folder.
std::string resume_command(const TrainOptions& options, const std::string& folder) {
  std::string line = fmt::format("{} train {} --resume --out {}", program_name(),
                                 model_words(options.recipe), shell_word(folder));
  if (!options.launched_by.empty()) line = options.launched_by + " " + line;
  if (options.worker_count() > 1 && options.launched_by.empty())
    line += fmt::format(" --workers {}", options.worker_count());
  if (!options.launched_by.empty()) line += store_words(options);
  if (options.shard_state > 0) line += fmt::format(" --shard-state {}", options.shard_state);
  if (options.skip_bad) line += " --skip-bad";
  if (options.limits.max_pixels)
    line += fmt::format(" --max-pixels {}", *options.limits.max_pixels);
  if (options.limits.max_inflated)
    line += fmt::format(" --max-inflated {}", *options.limits.max_inflated);
  if (options.checkpoint_every > 0)
    line += fmt::format(" --checkpoint-every {}", options.checkpoint_every);
  if (options.keep != TrainOptions().keep) line += fmt::format(" --keep {}", options.keep);
  if (options.threads > 0) line += fmt::format(" --threads {}", options.threads);
  return line + mesh_words(options.mesh) + connect_words(options);
}

}  // namespace lockstep::cli
