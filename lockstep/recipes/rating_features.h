// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "lockstep/data/dataset.h"
#include "lockstep/recipes/rating_table.h"

namespace lockstep::recipes {

// How often the user has rated and by how much above the mean, the same of the item, and how late
// it is in the time of the training ratings.
inline constexpr std::int64_t kRatingFeatures = 5;
// Number 0: the time is not known.
inline constexpr std::int64_t kWeekdays = 8, kHours = 25;

// Who and what, and when where that is known.
struct RatedPair {
  std::int64_t user = 0, item = 0;
  std::optional<std::int64_t> time = {};
};

// A net's inputs: users and items (Task::ratings), or features, users, items, weekdays and hours
// (Task::clicks). What a pair is told by is the table's, unless tallies of its own are given.
class RatingInputs {
 public:
  RatingInputs(Task task, const RatingTable& table, std::size_t count);
  void add(const RatedPair& pair);
  void add(const RatedPair& pair, const Tally& user, const Tally& item);
  data::Fields fields() const;

 private:
  void add_features(const RatedPair& pair, const Tally& user, const Tally& item);
  const Tally& user_tally(std::int64_t user) const {
    return table_.by_user.at(static_cast<std::size_t>(user));
  }
  const Tally& item_tally(std::int64_t item) const {
    return table_.by_item.at(static_cast<std::size_t>(item));
  }

  Task task_;
  const RatingTable& table_;
  std::vector<std::int64_t> users_, items_, weekdays_, hours_;
  std::vector<float> features_;
};

}  // namespace lockstep::recipes
