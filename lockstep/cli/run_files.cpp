// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/run_files.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/data_sets.h"
#include "lockstep/nn/set_parameters.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::cli {
namespace {

using observe::RunFolder;

train::Checkpoint newest_checkpoint(const RunFolder& run) {
  train::CheckpointStore store(run.checkpoints_path(), {.warn = [](const std::string& line) {
                                 print_error("warning: {}\n", line);
                               }});
  std::optional<train::Checkpoint> checkpoint = store.load_newest();
  if (!checkpoint) throw NotFound("{}: has no checkpoint yet", run.path());
  return std::move(*checkpoint);
}

}  // namespace

train::RecipeData open_run_data(const RunConfig& config, train::TextCodecPtr codec,
                                observe::Progress& progress, bool skip_bad_tests) {
  const train::Recipe& recipe = train::find_recipe(config.recipe);
  const std::string place = config.data.empty() ? fetch_set(recipe.dataset, progress) : config.data;
  return train::open_data(recipe, {.place = place,
                                   .skip_bad = config.skip_bad,
                                   .skip_bad_tests = skip_bad_tests,
                                   .max_pixels = config.max_pixels,
                                   .max_inflated = config.max_inflated,
                                   .warn = [&](const std::string& line) { progress.message(line); },
                                   .codec = std::move(codec)});
}

void write_codec(const RunFolder& run, const train::TextCodec& codec) {
  codec.vocabulary().save(run.vocabulary_path());
}

train::TextCodecPtr read_codec(const RunFolder& run, const train::Recipe& recipe) {
  if (!std::filesystem::exists(run.vocabulary_path())) return {};
  return std::make_shared<train::TextCodec>(recipe, data::Vocabulary::load(run.vocabulary_path()));
}

void write_classes(const RunFolder& run, const std::vector<std::string>& names) {
  write_file(run.classes_path(), nlohmann::json(names).dump() + "\n");
}

std::vector<std::string> read_classes(const RunFolder& run) {
  try {
    return nlohmann::json::parse(read_file(run.classes_path()));
  } catch (const nlohmann::json::exception&) {
    throw Corrupt("{}: is not a list of names", run.classes_path());
  }
}

void check_classes(const RunConfig& config, const data::Dataset& set,
                   const std::vector<std::string>& of_run) {
  if (config.data == "synthetic" || set.class_names() == of_run) return;
  throw InvalidArgument("{}: has the classes {}; the run has {}", config.data,
                        fmt::join(set.class_names(), ", "), fmt::join(of_run, ", "));
}

train::Recipe run_recipe(const RunConfig& config, const std::vector<std::string>& classes) {
  train::Recipe recipe = train::find_recipe(config.recipe);
  recipe.dropout = config.dropout;
  if (!classes.empty()) recipe.classes = static_cast<std::int64_t>(classes.size());
  return recipe;
}

TrainedModel load_model(const std::string& run_folder) {
  const RunFolder run = RunFolder::open(run_folder);
  const RunConfig config = config_from_json(run.read_config(), run.config_path());
  const std::vector<std::string> classes = read_classes(run);
  const train::Recipe recipe = run_recipe(config, classes);
  const train::Checkpoint checkpoint = newest_checkpoint(run);
  TrainedModel model{config,
                     recipe,
                     recipe.net(),
                     read_codec(run, recipe),
                     classes,
                     checkpoint.step,
                     checkpoint.params_sha256};
  model.net->initialize();
  model.net->complete_shapes({recipe.fields(1).front()});
  nn::set_parameters(*model.net, checkpoint.parameters, run.checkpoints_path());
  return model;
}

}  // namespace lockstep::cli
