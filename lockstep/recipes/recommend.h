// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/recipes/run_files.h"

namespace lockstep::recipes {

// A rating, or the probability of a click: as the run's recipe tells.
struct Score {
  std::string user, item;
  double value = 0.0;
};
const char* score_name(const Recipe& recipe);

struct RecommendOptions {
  std::int64_t top = 10;
  bool all = false;  // what the user has rated too
};
// The items with the highest scores, the highest first; of equal ones the item that the ratings
// have first. Throws NotFound for a user who was never trained on, InvalidArgument when nothing is
// left to recommend.
std::vector<Score> recommend(const TrainedModel& model, const std::string& user,
                             const RecommendOptions& options = {});

// Of each line's user and item (data/ratings.h). Throws as read_ratings does, also for those who
// were never trained on.
std::vector<Score> score_pairs(const TrainedModel& model, const std::string& file);

}  // namespace lockstep::recipes
