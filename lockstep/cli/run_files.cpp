// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/run_files.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/data_sets.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::cli {
namespace {

using observe::RunFolder;

std::string codec_path(const RunFolder& run) { return run.path() + "/vocabulary.txt"; }

std::string classes_path(const RunFolder& run) { return run.path() + "/classes.json"; }

std::vector<std::string> read_classes(const RunFolder& run) {
  try {
    return nlohmann::json::parse(read_file(classes_path(run)));
  } catch (const nlohmann::json::exception&) {
    throw Corrupt("{}: is not a list of names", classes_path(run));
  }
}

train::Checkpoint newest_checkpoint(const RunFolder& run) {
  train::CheckpointStore store(run.checkpoints_path(), {.warn = [](const std::string& line) {
                                 fmt::print(stderr, "warning: {}\n", line);
                               }});
  std::optional<train::Checkpoint> checkpoint = store.load_newest();
  if (!checkpoint) throw NotFound("{}: has no checkpoint yet", run.path());
  return std::move(*checkpoint);
}

void set_parameters(nn::Block& net, const train::Checkpoint& checkpoint) {
  for (const auto& [name, value] : checkpoint.parameters) net.parameter(name).set_data(value);
}

}  // namespace

train::RecipeData open_run_data(const RunConfig& config, train::TextCodecPtr codec,
                                observe::Progress& progress) {
  const train::Recipe& recipe = train::find_recipe(config.recipe);
  const std::string place = config.data.empty() ? fetch_set(recipe.dataset, progress) : config.data;
  return train::open_data(recipe, {.place = place,
                                   .skip_bad = config.skip_bad,
                                   .warn = [&](const std::string& line) { progress.message(line); },
                                   .codec = std::move(codec)});
}

void write_codec(const RunFolder& run, const train::TextCodec& codec) {
  codec.vocabulary().save(codec_path(run));
}

train::TextCodecPtr read_codec(const RunFolder& run, const train::Recipe& recipe) {
  if (!std::filesystem::exists(codec_path(run))) return {};
  return std::make_shared<train::TextCodec>(recipe, data::Vocabulary::load(codec_path(run)));
}

void write_classes(const RunFolder& run, const std::vector<std::string>& names) {
  write_file(classes_path(run), nlohmann::json(names).dump() + "\n");
}

TrainedModel load_model(const std::string& run_folder) {
  const RunFolder run = RunFolder::open(run_folder);
  const RunConfig config = config_from_json(run.read_config(), run.config_path());
  const train::Recipe& recipe = train::find_recipe(config.recipe);
  const train::Checkpoint checkpoint = newest_checkpoint(run);
  TrainedModel model{config,
                     recipe,
                     recipe.net(),
                     read_codec(run, recipe),
                     read_classes(run),
                     checkpoint.step,
                     checkpoint.params_sha256};
  model.net->initialize();
  model.net->complete_shapes({recipe.fields(1).front()});
  set_parameters(*model.net, checkpoint);
  return model;
}

}  // namespace lockstep::cli
