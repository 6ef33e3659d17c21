// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/observe/progress.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/recipes/run_config.h"

namespace lockstep::recipes {

// The run's data: generated, from its folder, or from the cache, fetched where it is missing.
struct RunDataOptions {
  std::string cache;        // of fetched sets: data::cache_dir
  TextCodecPtr codec = {};  // of a text recipe's run; made from the training texts otherwise
  bool skip_bad_tests = false;
  RatingTablePtr ratings = {};  // of a recommender's run; the data's own otherwise
};
RecipeData open_run_data(const RunConfig& config, const RunDataOptions& options,
                         observe::Progress& progress);

// Text recipes keep how text becomes numbers beside the checkpoints. Nothing for others, and for
// generated data.
void write_codec(const observe::RunFolder& run, const TextCodec& codec);
TextCodecPtr read_codec(const observe::RunFolder& run, const Recipe& recipe);

// Recommenders keep their users and items, and what is known of them.
void write_ratings(const observe::RunFolder& run, const RatingTable& table);
// Null for other recipes. Throws NotFound or Corrupt.
RatingTablePtr read_ratings(const observe::RunFolder& run, const Recipe& recipe);
// A number means the same user only where the ratings are the same. Throws InvalidArgument.
void check_ratings(const RunConfig& config, const RatingTable& table, const RatingTable& of_run);
// A recommender with an embedding for each of them; other recipes as they are.
Recipe with_ratings(Recipe recipe, const RatingTablePtr& table);

// The classes' names, in the order of their numbers.
void write_classes(const observe::RunFolder& run, const std::vector<std::string>& names);
// Throws Corrupt.
std::vector<std::string> read_classes(const observe::RunFolder& run);
// A label is a class's number: it means the same class only where the names are the same. Throws
// InvalidArgument; generated data has any.
void check_classes(const RunConfig& config, const data::Dataset& set,
                   const std::vector<std::string>& of_run);

// The recipe as a run has it: with its dropout, and an output for each class of its data.
Recipe run_recipe(const RunConfig& config, const std::vector<std::string>& classes);

// A net with the parameters of a run's newest good checkpoint.
struct TrainedModel {
  RunConfig config;
  Recipe recipe;
  nn::BlockPtr net;
  TextCodecPtr codec;
  RatingTablePtr ratings;  // of recommenders
  std::vector<std::string> classes;
  std::int64_t step = 0;
  std::string params_sha256;
};

// `warn` is told of checkpoints that are left out. Throws NotFound when there is no run or no
// checkpoint in it, Corrupt when none is good.
TrainedModel load_model(const std::string& run_folder,
                        const std::function<void(const std::string&)>& warn);

}  // namespace lockstep::recipes
