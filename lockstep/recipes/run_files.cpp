// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/run_files.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/nn/set_parameters.h"
#include "lockstep/recipes/fetch_set.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::recipes {
namespace {

using observe::RunFolder;

using Warn = std::function<void(const std::string&)>;

std::string ratings_path(const RunFolder& run) { return run.path() + "/ratings.table"; }

train::Checkpoint newest_checkpoint(const RunFolder& run, const Warn& warn) {
  train::CheckpointStore store(run.checkpoints_path(), {.warn = warn});
  std::optional<train::Checkpoint> checkpoint = store.load_newest();
  if (!checkpoint) throw NotFound("{}: has no checkpoint yet", run.path());
  return std::move(*checkpoint);
}

}  // namespace

RecipeData open_run_data(const RunConfig& config, const RunDataOptions& options,
                         observe::Progress& progress) {
  const Recipe recipe = run_recipe(config, {});
  const std::string place =
      config.data.empty() ? fetch_set(recipe.dataset, options.cache, progress) : config.data;
  return open_data(recipe, {.place = place,
                            .skip_bad = config.skip_bad,
                            .skip_bad_tests = options.skip_bad_tests,
                            .max_pixels = config.max_pixels,
                            .max_inflated = config.max_inflated,
                            .warn = [&](const std::string& line) { progress.message(line); },
                            .codec = options.codec,
                            .image_is_set = !config.image.empty(),
                            .image_size = config.image_size,
                            .split = config.split,
                            .ratings = options.ratings});
}

void write_codec(const RunFolder& run, const TextCodec& codec) {
  codec.vocabulary().save(run.vocabulary_path());
}

TextCodecPtr read_codec(const RunFolder& run, const Recipe& recipe) {
  if (!std::filesystem::exists(run.vocabulary_path())) return {};
  return std::make_shared<TextCodec>(recipe, data::Vocabulary::load(run.vocabulary_path()));
}

void write_ratings(const RunFolder& run, const RatingTable& table) {
  save_rating_table(table, ratings_path(run));
}

RatingTablePtr read_ratings(const RunFolder& run, const Recipe& recipe) {
  if (!recipe.is_recommender()) return {};
  return std::make_shared<RatingTable>(load_rating_table(ratings_path(run)));
}

void check_ratings(const RunConfig& config, const RatingTable& table, const RatingTable& of_run) {
  if (table.users.names() == of_run.users.names() && table.items.names() == of_run.items.names() &&
      table.rated == of_run.rated && table.mean == of_run.mean)
    return;
  throw InvalidArgument(
      "{}: has other ratings than the run ({} of {} users and {} items; {} of {} "
      "and {})",
      config.data, table.rated.size(), table.users.size(), table.items.size(), of_run.rated.size(),
      of_run.users.size(), of_run.items.size());
}

Recipe with_ratings(Recipe recipe, const RatingTablePtr& table) {
  if (table) recipe.sizes = table->sizes();
  return recipe;
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

Recipe run_recipe(const RunConfig& config, const std::vector<std::string>& classes) {
  Recipe recipe =
      with_size(find_recipe(config.recipe), {.width = config.width, .blocks = config.blocks});
  if (recipe.from_data && !config.image.empty())
    recipe = with_image_shape(recipe, shape_from_text(config.image));
  recipe.dropout = config.dropout;
  if (!classes.empty()) recipe.classes = static_cast<std::int64_t>(classes.size());
  return recipe;
}

TrainedModel load_model(const std::string& run_folder, const Warn& warn) {
  const RunFolder run = RunFolder::open(run_folder);
  const RunConfig config = config_from_json(run.read_config(), run.config_path());
  const std::vector<std::string> classes = read_classes(run);
  const Recipe plain = run_recipe(config, classes);
  const RatingTablePtr ratings = read_ratings(run, plain);
  const Recipe recipe = with_ratings(plain, ratings);
  const train::Checkpoint checkpoint = newest_checkpoint(run, warn);
  TrainedModel model{config,  recipe,  recipe.net(),    read_codec(run, recipe),
                     ratings, classes, checkpoint.step, checkpoint.params_sha256};
  model.net->initialize();
  model.net->complete_shapes(recipe.inputs(1));
  nn::set_parameters(*model.net, checkpoint.parameters, run.checkpoints_path());
  return model;
}

}  // namespace lockstep::recipes
