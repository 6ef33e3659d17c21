// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/rating_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/recipes/rating_features.h"
#include "lockstep/recipes/synthetic_ratings.h"

namespace lockstep::recipes {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kParts = 10;  // of which one is held out
constexpr std::size_t kFolds = 5;     // of those for training

// FNV-1a, then the finalizer of MurmurHash3, which spreads it over all bits.
std::uint64_t hash_of(std::string_view user, std::string_view item) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U; };
  for (const char c : user) add(c);
  add('\n');  // in no id
  for (const char c : item) add(c);
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdU;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53U;
  return hash ^ (hash >> 33);
}

std::uint64_t pair_hash(const data::Ratings& ratings, std::size_t i) {
  return hash_of(ratings.users.name(ratings.user[i]), ratings.items.name(ratings.item[i]));
}

// The time from which on a tenth of the ratings was made.
std::int64_t late_from(const data::Ratings& ratings, const std::string& place) {
  if (!ratings.has_time())
    throw InvalidArgument("{}: has no times to split by: leave --split time out", place);
  std::vector<std::int64_t> times = ratings.time;
  const auto cut =
      times.begin() + static_cast<std::ptrdiff_t>(times.size() * (kParts - 1) / kParts);
  std::nth_element(times.begin(), cut, times.end());
  return *cut;
}

// MovieLens's files by the names that they have in its three forms.
std::string ratings_file(const std::string& place) {
  if (!fs::is_directory(place)) return place;
  for (const char* name : {"ratings.csv", "u.data", "ratings.dat"})
    if (fs::exists(place + "/" + name)) return place + "/" + name;
  throw NotFound("{}: has no ratings (ratings.csv, u.data, ratings.dat)", place);
}

data::Ratings open_ratings(const DataSource& source) {
  const RatingTable* known = source.ratings.get();
  return data::read_ratings(ratings_file(source.place),
                            {.max_inflated = source.max_inflated,
                             .skip_bad = source.skip_bad,
                             .warn = source.warn,
                             .users = known != nullptr ? &known->users : nullptr,
                             .items = known != nullptr ? &known->items : nullptr});
}

// What users and items are told by must not tell the very rating that is asked for: a training
// rating is told by those of the other folds.
class Folds {
 public:
  Folds(const data::Ratings& ratings, const std::vector<bool>& held_out, const RatingTable& table)
      : ratings_(ratings),
        table_(table),
        users_(table.by_user.size()),
        items_(table.by_item.size()) {
    for (std::size_t i = 0; i < ratings.size(); ++i) {
      if (held_out[i]) continue;
      part(users_, ratings.user[i], i).add(ratings.value[i]);
      part(items_, ratings.item[i], i).add(ratings.value[i]);
    }
  }

  Tally user(std::size_t i) { return other(table_.by_user, users_, ratings_.user[i], i); }
  Tally item(std::size_t i) { return other(table_.by_item, items_, ratings_.item[i], i); }

 private:
  using Parts = std::vector<std::array<Tally, kFolds>>;

  Tally& part(Parts& parts, std::int64_t number, std::size_t i) const {
    return parts[static_cast<std::size_t>(number)][pair_hash(ratings_, i) / kParts % kFolds];
  }
  Tally other(const std::vector<Tally>& all, Parts& parts, std::int64_t number, std::size_t i) {
    return all[static_cast<std::size_t>(number)].without(part(parts, number, i));
  }

  const data::Ratings& ratings_;
  const RatingTable& table_;
  Parts users_, items_;
};

RatedPair pair_of(const data::Ratings& ratings, std::size_t i) {
  RatedPair pair{ratings.user[i], ratings.item[i]};
  if (ratings.has_time()) pair.time = ratings.time[i];
  return pair;
}

Tensor labels_of(Task task, const RatingTable& table, const std::vector<float>& values) {
  std::vector<float> labels = values;
  if (task == Task::clicks)
    for (float& label : labels) label = table.is_click(label) ? 1.0F : 0.0F;
  return Tensor::from(labels, {static_cast<std::int64_t>(labels.size())});
}

data::DatasetPtr make_set(const RatingInputs& inputs, const Tensor& labels) {
  data::Fields fields = inputs.fields();
  fields.push_back(labels);
  return std::make_shared<data::ArrayDataset>(std::move(fields));
}

data::DatasetPtr train_set(Task task, const data::Ratings& ratings,
                           const std::vector<bool>& held_out, const RatingTable& table) {
  Folds folds(ratings, held_out, table);
  RatingInputs inputs(task, table, ratings.size());
  std::vector<float> values;
  for (std::size_t i = 0; i < ratings.size(); ++i) {
    if (held_out[i]) continue;
    inputs.add(pair_of(ratings, i), folds.user(i), folds.item(i));
    values.push_back(ratings.value[i]);
  }
  return make_set(inputs, labels_of(task, table, values));
}

data::DatasetPtr test_set(Task task, const data::Ratings& ratings,
                          const std::vector<bool>& held_out, const RatingTable& table) {
  RatingInputs inputs(task, table, ratings.size() / kParts);
  std::vector<float> values;
  for (std::size_t i = 0; i < ratings.size(); ++i) {
    if (!held_out[i]) continue;
    inputs.add(pair_of(ratings, i));
    values.push_back(ratings.value[i]);
  }
  return make_set(inputs, labels_of(task, table, values));
}

// A net that is to tell clicks from others needs both.
void check_clicks(const data::Ratings& ratings, const RatingTable& table,
                  const std::string& place) {
  const auto clicks = std::count_if(ratings.value.begin(), ratings.value.end(),
                                    [&](float value) { return table.is_click(value); });
  if (clicks == 0 || clicks == static_cast<std::ptrdiff_t>(ratings.size()))
    throw InvalidArgument(
        "{}: {} of its {} ratings count as clicks: there is nothing to tell apart", place, clicks,
        ratings.size());
}

}  // namespace

std::vector<std::string> rating_splits() { return {"pairs", "time"}; }

std::vector<bool> held_out_ratings(const data::Ratings& ratings, const std::string& split,
                                   const std::string& place) {
  const bool by_time = split == "time";
  if (!by_time && split != "pairs")
    throw NotFound("split: there is no '{}' (there are: {})", split,
                   fmt::join(rating_splits(), ", "));
  const std::int64_t late = by_time ? late_from(ratings, place) : 0;
  std::vector<bool> held_out(ratings.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < ratings.size(); ++i) {
    held_out[i] = by_time ? ratings.time[i] >= late : pair_hash(ratings, i) % kParts == 0;
    count += held_out[i] ? 1 : 0;
  }
  if (count == 0 || count == ratings.size())
    throw InvalidArgument("{}: {} of its {} ratings are held out, expected about every tenth",
                          place, count, ratings.size());
  return held_out;
}

RecipeData rating_data(const Recipe& recipe, const DataSource& source) {
  const data::Ratings ratings =
      source.place == "synthetic" ? generate_ratings().ratings : open_ratings(source);
  const std::vector<bool> held_out = held_out_ratings(ratings, source.split, source.place);
  const RatingTablePtr table = std::make_shared<RatingTable>(make_rating_table(ratings, held_out));
  const RatingTable& known = source.ratings ? *source.ratings : *table;
  if (recipe.task == Task::clicks) check_clicks(ratings, known, source.place);
  RecipeData data;
  data.train = train_set(recipe.task, ratings, held_out, *table);
  data.test = test_set(recipe.task, ratings, held_out, known);
  data.ratings = source.ratings ? source.ratings : table;
  return data;
}

}  // namespace lockstep::recipes
