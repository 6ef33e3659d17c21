// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/ratings.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// How often someone rated, or something was rated, and the sum of these ratings.
struct Tally {
  std::int64_t count = 0;
  double sum = 0.0;

  void add(float rating) {
    ++count;
    sum += static_cast<double>(rating);
  }
  Tally without(const Tally& part) const { return {count - part.count, sum - part.sum}; }
};

// What has to be known of ratings so that the net which was trained on them can be asked: kept with
// the run.
struct RatingTable {
  data::IdList users, items;
  // Of the ratings that are trained on.
  double mean = 0.0;
  std::vector<Tally> by_user = {}, by_item = {};
  bool has_time = false;
  std::int64_t first_time = 0, last_time = 0;
  // The least rating that counts as a click.
  double click_from = 0.0;
  // Of all ratings, those held out too: the items of user u are rated[rated_begin[u]] up to
  // rated[rated_begin[u + 1]], sorted.
  std::vector<std::int64_t> rated_begin = {}, rated = {};

  RatingSizes sizes() const { return {users.size(), items.size(), mean}; }
  bool is_click(float rating) const { return static_cast<double>(rating) >= click_from; }
  std::span<const std::int64_t> rated_by(std::int64_t user) const;
};
using RatingTablePtr = std::shared_ptr<const RatingTable>;

// A tensor with these values along one axis.
inline Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// `held_out`: which ratings are not trained on; some are. Ratings of at most five stars are clicks
// from four on, others when they are above the mean.
RatingTable make_rating_table(const data::Ratings& ratings, const std::vector<bool>& held_out);

// Throw IoError; NotFound, or Corrupt that begins with `path`.
void save_rating_table(const RatingTable& table, const std::string& path);
RatingTable load_rating_table(const std::string& path);

}  // namespace lockstep::recipes
