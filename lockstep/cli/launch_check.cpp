// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_check.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cli/train_workers.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {
namespace {

bool is_own_program(const std::vector<std::string>& command) {
  return !command.empty() && std::filesystem::path(command[0]).filename() == "lockstep";
}

bool is_training(const std::vector<std::string>& command) {
  return is_own_program(command) && command.size() > 1 && command[1] == "train";
}

// None when the words are no training of ours, or not as they should be.
std::optional<TrainOptions> parse_words(const std::vector<std::string>& command) {
  if (!is_training(command)) return std::nullopt;
  CLI::App app;
  TrainOptions options;
  add_train_options(app, options);
  std::vector<std::string> words = join_resume_auto({command.begin() + 2, command.end()});
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError&) {
    return std::nullopt;
  }
  if (!options.model.empty()) options.recipe = options.model;
  return options;
}

// The same where they do not say what is trained: the run's folder, or the worker, does.
std::optional<TrainOptions> parse_train(const std::vector<std::string>& command) {
  std::optional<TrainOptions> options = parse_words(command);
  if (options && options->recipe.empty()) return std::nullopt;
  return options;
}

// The configuration that the options are to change; none when it is not to be seen from here.
std::optional<recipes::RunConfig> config_before(const TrainOptions& options,
                                                const std::string& folder) {
  const bool is_new = options.resume_auto && !folder.empty() &&
                      !has_run(std::filesystem::path(folder) / options.out);
  if (is_new || (!options.resume && !options.resume_auto))
    return recipes::default_config(recipes::find_recipe(options.recipe));
  if (folder.empty() || options.out.empty()) return std::nullopt;
  const std::string path = std::filesystem::path(folder) / options.out / "config.json";
  try {
    return recipes::config_from_json(read_file(path), path);
  } catch (const Error&) {
    return std::nullopt;  // the first worker says what is wrong with it
  }
}

}  // namespace

bool starts_anew(const std::vector<std::string>& command) {
  const std::optional<TrainOptions> options = parse_train(command);
  return options && !options->resume && !options->resume_auto;
}

void take_limits(cluster::LaunchOptions& launch, const recipes::RunConfig& config) {
  if (const std::optional<TrainOptions> options = parse_train(launch.command))
    take_limits(launch, *options, config);
}

bool survives_losses(const std::vector<std::string>& command) {
  const std::optional<TrainOptions> options = parse_train(command);
  return options && is_survivor(*options);
}

void take_store(cluster::LaunchOptions& launch, const std::optional<recipes::RunConfig>& config) {
  const std::vector<std::string>& command = launch.command;
  std::optional<TrainOptions> options = parse_words(command);
  if (options && launch.store.empty()) launch.store = options->store;
  if (launch.store.empty()) return;
  if (worker_count(launch) < 2)
    throw WrongUsage("--store: expected two workers or more: one alone has nobody to go on");
  if (is_own_program(command) && !is_training(command))
    throw WrongUsage(fmt::format(
        "--store: lockstep {} does not go on without its launcher; expected lockstep train",
        command.size() > 1 ? command[1] : ""));
  if (!options) return;
  options->workers = worker_count(launch);
  check_store(*options, config);
}

std::string run_of(const std::vector<std::string>& command) {
  const std::optional<TrainOptions> options = parse_train(command);
  return options ? options->out : "";
}

int worker_count(const cluster::LaunchOptions& options) {
  if (options.hosts.empty()) return std::max(options.workers, 1);
  return std::accumulate(options.hosts.begin(), options.hosts.end(), 0,
                         [](int sum, const cluster::HostSlots& host) { return sum + host.slots; });
}

std::optional<recipes::RunConfig> check_train_command(const std::vector<std::string>& command,
                                                      int workers, int servers,
                                                      const std::string& folder) {
  std::optional<TrainOptions> options = parse_train(command);
  if (!options || options->workers) return {};
  options->workers = workers;
  options->job_servers = servers;
  if (const auto before = config_before(*options, folder)) return apply_options(*before, *options);
  return {};
}

}  // namespace lockstep::cli
