// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/gzip.h"
#include "lockstep/data/codec.h"
#include "lockstep/recipes/rating_table.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/recipes/text_codec.h"

namespace lockstep::recipes {

struct DataSource {
  std::string place =
      "synthetic";  // or a folder with the data set's usual files; of ratings a file
  // Images that do not decode are left out, and `warn` is told; else they are an error.
  bool skip_bad = false;
  bool skip_bad_tests = false;  // in the test set alone, which decides no parameter
  std::int64_t max_pixels = data::ImageOptions().max_pixels;  // of an image
  std::int64_t max_inflated = kMaxInflated;                   // bytes of a gzip file's contents
  std::function<void(const std::string&)> warn = {};
  // Text recipes: how text becomes numbers; made from the training texts where there is none.
  TextCodecPtr codec = {};
  // Library models: the recipe's sample_shape is what the net reads, in a run that was begun. Else
  // the images decide, or the side of a square.
  bool image_is_set = false;
  std::int64_t image_size = 0;
  // Recommenders: how a tenth of the ratings is held out (recipes/rating_data.h), and the users and
  // items of a run that was begun; the ratings' own where there is none.
  std::string split = "pairs";
  RatingTablePtr ratings = {};
};

struct RecipeData {
  data::DatasetPtr train;
  data::DatasetPtr test;
  TextCodecPtr codec;           // of text recipes on files
  Shape image = {};             // of images: what the net reads, [C, H, W]
  RatingTablePtr ratings = {};  // of recommenders
};

// Throws NotFound, IoError or Corrupt, naming the file; InvalidArgument when the files do not fit
// the recipe.
RecipeData open_data(const Recipe& recipe, const DataSource& source);

// Of sizes, names, vocabulary and some samples of both sets: other files show in it, mostly.
std::string data_sha256(const RecipeData& data);

}  // namespace lockstep::recipes
