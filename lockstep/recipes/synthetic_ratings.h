// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/data/ratings.h"

namespace lockstep::recipes {

inline constexpr std::int64_t kGeneratedUsers = 1000, kGeneratedItems = 500;

// Ratings whose making is known: a constant, biases, a product of vectors of 4, an effect of
// weekday and hour, and noise of deviation `kRatingNoise`. Items are rated as often as their place
// in a power law says. The same on every machine.
inline constexpr double kRatingNoise = 0.5;
struct GeneratedRatings {
  data::Ratings ratings;
  // What is left of each without the noise, and without the effect of the time as well: no net can
  // tell more of a rating.
  std::vector<float> expected, expected_without_time;
};
GeneratedRatings generate_ratings();

}  // namespace lockstep::recipes
