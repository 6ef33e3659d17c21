// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/rating_features.h"

namespace lockstep::recipes {
namespace {

constexpr std::int64_t kHour = 3600, kDay = 24 * kHour;
constexpr std::int64_t kFirstWeekday = 4;  // 1970 began on a Thursday, the fourth from Monday 1
// As many ratings at the mean are added to everyone's, so that a single one says little.
constexpr double kPrior = 5.0;
constexpr double kManyRatings = 20.0;

std::int64_t floor_mod(std::int64_t value, std::int64_t by) { return (value % by + by) % by; }

std::int64_t weekday_of(std::int64_t time) {
  const std::int64_t day = (time - floor_mod(time, kDay)) / kDay;
  return 1 + floor_mod(day + kFirstWeekday - 1, 7);
}

std::int64_t hour_of(std::int64_t time) { return 1 + floor_mod(time, kDay) / kHour; }

// Sums, products and quotients alone: the same on every machine.
float part_of_many(std::int64_t count) {
  const auto n = static_cast<double>(count);
  return static_cast<float>(n / (n + kManyRatings));
}

float above_mean(const Tally& tally, double mean) {
  const auto n = static_cast<double>(tally.count);
  return static_cast<float>((tally.sum - n * mean) / (n + kPrior));
}

float lateness(const RatingTable& table, const std::optional<std::int64_t>& time) {
  if (!time || !table.has_time || table.last_time == table.first_time) return 0.0F;
  return static_cast<float>(static_cast<double>(*time - table.first_time) /
                            static_cast<double>(table.last_time - table.first_time));
}

}  // namespace

RatingInputs::RatingInputs(Task task, const RatingTable& table, std::size_t count)
    : task_(task), table_(table) {
  users_.reserve(count);
  items_.reserve(count);
  if (task_ == Task::clicks) features_.reserve(count * kRatingFeatures);
}

void RatingInputs::add(const RatedPair& pair) {
  add(pair, user_tally(pair.user), item_tally(pair.item));
}

void RatingInputs::add(const RatedPair& pair, const Tally& user, const Tally& item) {
  users_.push_back(pair.user);
  items_.push_back(pair.item);
  if (task_ == Task::clicks) add_features(pair, user, item);
}

void RatingInputs::add_features(const RatedPair& pair, const Tally& user, const Tally& item) {
  features_.push_back(part_of_many(user_tally(pair.user).count));
  features_.push_back(above_mean(user, table_.mean));
  features_.push_back(part_of_many(item_tally(pair.item).count));
  features_.push_back(above_mean(item, table_.mean));
  features_.push_back(lateness(table_, pair.time));
  weekdays_.push_back(pair.time ? weekday_of(*pair.time) : 0);
  hours_.push_back(pair.time ? hour_of(*pair.time) : 0);
}

data::Fields RatingInputs::fields() const {
  if (task_ == Task::ratings) return {numbers(users_), numbers(items_)};
  const auto count = static_cast<std::int64_t>(users_.size());
  return {Tensor::from(features_, {count, kRatingFeatures}), numbers(users_), numbers(items_),
          numbers(weekdays_), numbers(hours_)};
}

}  // namespace lockstep::recipes
