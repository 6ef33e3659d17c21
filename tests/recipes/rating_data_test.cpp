// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/rating_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/recipes/rating_features.h"
#include "lockstep/recipes/synthetic_ratings.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::recipes {
namespace {

using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;

// 20 users and 10 items, all pairs, ratings 1 to 5; the last column tells a time.
std::string small_file() {
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int user = 0; user < 20; ++user)
    for (int item = 0; item < 10; ++item)
      text += fmt::format("{},{},{},{}\n", 100 + user, item, 1 + (user + item) % 5,
                          1000000 + 10 * item + user);
  return text;
}

RecipeData open_small(const char* recipe, const DataSource& source = {}) {
  const TemporaryFolder folder("ratings");
  DataSource here = source;
  here.place = folder.path() + "/r.csv";
  write_file(here.place, small_file());
  return open_data(find_recipe(recipe), here);
}

std::set<std::pair<std::int64_t, std::int64_t>> pairs_of(const data::Dataset& set) {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const data::Fields sample = set.sample(i);
    pairs.emplace(sample[0].item(), sample[1].item());
  }
  return pairs;
}

TEST(RatingData, ATenthOfThePairsIsHeldOutWhateverTheirOrder) {
  const RecipeData data = open_small("recsys-mf");
  EXPECT_EQ(data.train->size() + data.test->size(), 200);
  EXPECT_NEAR(static_cast<double>(data.test->size()), 20, 12);
  const auto train = pairs_of(*data.train), test = pairs_of(*data.test);
  for (const auto& pair : test) EXPECT_FALSE(train.contains(pair));
  std::string forth, back;
  for (int i = 0; i < 60; ++i) {
    const std::string line = fmt::format("u{},i{},3\n", i % 12, i);
    forth = forth + line;
    back = line + back;
  }
  std::vector<bool> held_out = held_out_ratings(data::parse_ratings(forth, "r"), "pairs", "r");
  std::reverse(held_out.begin(), held_out.end());
  EXPECT_EQ(held_out_ratings(data::parse_ratings(back, "r"), "pairs", "r"), held_out);
}

TEST(RatingData, OrTheLatestTenth) {
  const data::Ratings ratings = data::parse_ratings(small_file(), "r");
  const std::vector<bool> held_out = held_out_ratings(ratings, "time", "r");
  std::int64_t latest_trained = 0, first_held_out = 1 << 30, count = 0;
  for (std::size_t i = 0; i < ratings.size(); ++i) {
    count += held_out[i];
    if (held_out[i])
      first_held_out = std::min(first_held_out, ratings.time[i]);
    else
      latest_trained = std::max(latest_trained, ratings.time[i]);
  }
  EXPECT_LT(latest_trained, first_held_out);
  EXPECT_NEAR(static_cast<double>(count), 20, 5);
}

TEST(RatingData, WhatCannotBeSplitIsRefused) {
  const data::Ratings two = data::parse_ratings("a,x,1\n", "r");
  EXPECT_EQ(message_of([&] { held_out_ratings(two, "time", "r.csv"); }),
            "r.csv: has no times to split by: leave --split time out");
  EXPECT_EQ(message_of([&] { held_out_ratings(two, "pairs", "r.csv"); }),
            "r.csv: 0 of its 1 ratings are held out, expected about every tenth");
  EXPECT_EQ(message_of<NotFound>([&] { held_out_ratings(two, "half", "r.csv"); }),
            "split: there is no 'half' (there are: pairs, time)");
}

TEST(RatingData, FoursAndFivesOfFiveStarsAreClicks) {
  const RecipeData data = open_small("recsys-dlrm");
  EXPECT_EQ(data.ratings->click_from, 4.0);
  const TemporaryFolder folder("ratings");
  const std::string place = folder.path() + "/r.csv";
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("u{},i{},{}\n", i % 10, i / 10, i);
  write_file(place, text);
  const RecipeData percents = open_data(find_recipe("recsys-dlrm"), {.place = place});
  EXPECT_GT(percents.ratings->click_from, percents.ratings->mean);
  EXPECT_NEAR(percents.ratings->mean, 50, 5);
  EXPECT_EQ(percents.train->sample(0).back().item(), 0.0);
  text.clear();
  for (int i = 0; i < 100; ++i) text += fmt::format("u{},i{},7\n", i % 10, i / 10);
  write_file(place, text);
  EXPECT_EQ(message_of([&] { open_data(find_recipe("recsys-dlrm"), {.place = place}); }),
            place + ": 0 of its 100 ratings count as clicks: there is nothing to tell apart");
}

// A rating's own features, whatever its value is.
TEST(RatingData, FeaturesOfATrainingRatingDoNotTellIt) {
  const auto first_features = [](const std::string& rating) {
    const TemporaryFolder folder("ratings");
    const std::string place = folder.path() + "/r.csv";
    std::string text = small_file();
    const std::size_t at = text.find("100,1,");
    text.replace(at + 6, 1, rating);
    write_file(place, text);
    const RecipeData data = open_data(find_recipe("recsys-dlrm"), {.place = place});
    for (std::int64_t i = 0; i < data.train->size(); ++i) {
      const data::Fields sample = data.train->sample(i);
      if (sample[1].item() == 0 && sample[2].item() == 1)
        return std::make_pair(sample[0].to_vector<float>(), data.ratings->mean);
    }
    ADD_FAILURE() << "the pair is held out: choose another";
    return std::make_pair(std::vector<float>{}, 0.0);
  };
  const auto [low, low_mean] = first_features("1");
  const auto [high, high_mean] = first_features("5");
  ASSERT_EQ(low.size(), static_cast<std::size_t>(kRatingFeatures));
  // The mean of all moves by 4 / 180; with the rating among them the user's would move by 4 / 15.
  for (std::size_t i = 0; i < low.size(); ++i) EXPECT_NEAR(low[i], high[i], 0.03) << i;
  EXPECT_NE(low_mean, high_mean);
}

TEST(RatingData, WeekdayAndHourAreThoseOfTheTime) {
  const RecipeData data = open_small("recsys-dlrm");
  RatingInputs inputs(Task::clicks, *data.ratings, 3);
  inputs.add({0, 0, 0});          // Thursday, 1 January 1970, 00:00
  inputs.add({0, 0, -1});         // the second before
  inputs.add({0, 0, {}});         // not known
  inputs.add({0, 0, 881250949});  // Thursday, 4 December 1997, 15:55
  const data::Fields fields = inputs.fields();
  EXPECT_EQ(fields[3].to_vector<int>(), (std::vector<int>{4, 3, 0, 4}));
  EXPECT_EQ(fields[4].to_vector<int>(), (std::vector<int>{1, 24, 0, 16}));
}

TEST(RatingData, AFolderHasMovieLensFiles) {
  const TemporaryFolder folder("ratings");
  EXPECT_EQ(
      message_of<NotFound>([&] { open_data(find_recipe("recsys-mf"), {.place = folder.path()}); }),
      folder.path() + ": has no ratings (ratings.csv, u.data, ratings.dat)");
  write_file(folder.path() + "/ratings.csv", small_file());
  EXPECT_EQ(open_data(find_recipe("recsys-mf"), {.place = folder.path()}).ratings->users.size(),
            20);
}

TEST(RatingTable, ComesBackFromItsFile) {
  const TemporaryFolder folder("rating_table");
  const std::string path = folder.path() + "/ratings.table";
  const RecipeData data = open_small("recsys-dlrm");
  const RatingTable& table = *data.ratings;
  save_rating_table(table, path);
  const RatingTable again = load_rating_table(path);
  EXPECT_EQ(again.users.names(), table.users.names());
  EXPECT_EQ(again.items.names(), table.items.names());
  EXPECT_EQ(again.mean, table.mean);
  EXPECT_EQ(again.click_from, table.click_from);
  EXPECT_EQ(again.last_time, table.last_time);
  EXPECT_EQ(again.rated, table.rated);
  EXPECT_EQ(again.by_item[3].count, table.by_item[3].count);
  EXPECT_EQ(again.by_item[3].sum, table.by_item[3].sum);
  EXPECT_EQ(again.rated_by(7).size(), 10U);
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] ^= 1;
  write_file(path, bytes);
  EXPECT_THROW(load_rating_table(path), Corrupt);
}

TEST(GeneratedRatings, AreAsTheyAreSaidToBe) {
  const GeneratedRatings all = generate_ratings();
  const data::Ratings& ratings = all.ratings;
  ASSERT_GT(ratings.size(), 100000U);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(kGeneratedItems));
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  double noise = 0;
  for (std::size_t i = 0; i < ratings.size(); ++i) {
    ++counts[static_cast<std::size_t>(ratings.item[i])];
    pairs.emplace(ratings.user[i], ratings.item[i]);
    noise += std::pow(ratings.value[i] - all.expected[i], 2);
  }
  EXPECT_EQ(pairs.size(), ratings.size());
  EXPECT_NEAR(std::sqrt(noise / static_cast<double>(ratings.size())), kRatingNoise, 0.005);
  const auto of = [&](std::ptrdiff_t first, std::ptrdiff_t last) {
    return std::accumulate(counts.begin() + first, counts.begin() + last, std::int64_t{0});
  };
  EXPECT_GT(of(0, 50), 3 * of(450, 500));
}

}  // namespace
}  // namespace lockstep::recipes
