// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/rating_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/io/archive.h"

namespace lockstep::recipes {
namespace {

constexpr double kFourStars = 4.0, kFiveStars = 5.0;

double click_threshold(const data::Ratings& ratings, double mean) {
  const auto [least, most] = std::minmax_element(ratings.value.begin(), ratings.value.end());
  const bool are_stars = *least >= 0.0F && *most <= kFiveStars && *most >= kFourStars;
  return are_stars ? kFourStars : std::nextafter(mean, std::numeric_limits<double>::infinity());
}

void add_rated(RatingTable& table, const data::Ratings& ratings) {
  table.rated_begin.assign(static_cast<std::size_t>(table.users.size()) + 1, 0);
  for (const std::int64_t user : ratings.user)
    ++table.rated_begin[static_cast<std::size_t>(user) + 1];
  for (std::size_t i = 1; i < table.rated_begin.size(); ++i)
    table.rated_begin[i] += table.rated_begin[i - 1];
  table.rated.resize(ratings.size());
  std::vector<std::int64_t> next(table.rated_begin.begin(), table.rated_begin.end() - 1);
  for (std::size_t i = 0; i < ratings.size(); ++i)
    table.rated[static_cast<std::size_t>(next[static_cast<std::size_t>(ratings.user[i])]++)] =
        ratings.item[i];
  for (std::size_t i = 1; i < table.rated_begin.size(); ++i)
    std::sort(table.rated.begin() + table.rated_begin[i - 1],
              table.rated.begin() + table.rated_begin[i]);
}

void add_time(RatingTable& table, std::int64_t time) {
  table.first_time = table.has_time ? std::min(table.first_time, time) : time;
  table.last_time = table.has_time ? std::max(table.last_time, time) : time;
  table.has_time = true;
}

}  // namespace

std::span<const std::int64_t> RatingTable::rated_by(std::int64_t user) const {
  const auto begin = static_cast<std::size_t>(rated_begin.at(static_cast<std::size_t>(user)));
  const auto end = static_cast<std::size_t>(rated_begin.at(static_cast<std::size_t>(user) + 1));
  return std::span(rated).subspan(begin, end - begin);
}

RatingTable make_rating_table(const data::Ratings& ratings, const std::vector<bool>& held_out) {
  RatingTable table{.users = ratings.users, .items = ratings.items};
  table.by_user.resize(static_cast<std::size_t>(table.users.size()));
  table.by_item.resize(static_cast<std::size_t>(table.items.size()));
  Tally all;
  for (std::size_t i = 0; i < ratings.size(); ++i) {
    if (held_out[i]) continue;
    all.add(ratings.value[i]);
    table.by_user[static_cast<std::size_t>(ratings.user[i])].add(ratings.value[i]);
    table.by_item[static_cast<std::size_t>(ratings.item[i])].add(ratings.value[i]);
    if (ratings.has_time()) add_time(table, ratings.time[i]);
  }
  table.mean = all.sum / static_cast<double>(all.count);
  table.click_from = click_threshold(ratings, table.mean);
  add_rated(table, ratings);
  return table;
}

namespace {

Tensor reals(const std::vector<double>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// A line for each: ids come from lines and hold no line break.
Tensor text_of(const data::IdList& ids) {
  std::vector<std::uint8_t> bytes;
  for (const std::string& name : ids.names()) {
    bytes.insert(bytes.end(), name.begin(), name.end());
    bytes.push_back('\n');
  }
  return Tensor::from(bytes, {static_cast<std::int64_t>(bytes.size())});
}

data::IdList ids_of(const Tensor& text) {
  data::IdList ids;
  std::string name;
  for (const std::uint8_t c : text.to_vector<std::uint8_t>()) {
    if (c != '\n') {
      name.push_back(static_cast<char>(c));
      continue;
    }
    ids.add(name);
    name.clear();
  }
  return ids;
}

void add_tallies(io::Archive& archive, const std::string& name, const std::vector<Tally>& tallies) {
  std::vector<std::int64_t> counts;
  std::vector<double> sums;
  for (const Tally& tally : tallies) {
    counts.push_back(tally.count);
    sums.push_back(tally.sum);
  }
  archive.tensors.emplace_back(name + ".count", numbers(counts));
  archive.tensors.emplace_back(name + ".sum", reals(sums));
}

class TableReader {
 public:
  explicit TableReader(const std::string& path) : path_(path), archive_(io::read_archive(path)) {}

  RatingTable table() const {
    RatingTable table{.users = ids_of(tensor("users")), .items = ids_of(tensor("items"))};
    const std::vector<double> facts = tensor("facts").to_vector<double>();
    const std::vector<std::int64_t> times = tensor("times").to_vector<std::int64_t>();
    require(facts.size() == 2 && (times.empty() || times.size() == 2), "facts");
    table.mean = facts[0];
    table.click_from = facts[1];
    table.has_time = !times.empty();
    if (table.has_time) table.first_time = times[0], table.last_time = times[1];
    table.by_user = tallies("by_user", table.users.size());
    table.by_item = tallies("by_item", table.items.size());
    table.rated_begin = tensor("rated_begin").to_vector<std::int64_t>();
    table.rated = tensor("rated").to_vector<std::int64_t>();
    check_rated(table);
    return table;
  }

 private:
  void require(bool good, const std::string& part) const {
    if (!good) throw Corrupt("{}: is not what a run keeps of its ratings: '{}'", path_, part);
  }

  Tensor tensor(const std::string& name) const {
    for (const auto& [key, value] : archive_.tensors)
      if (key == name) return value;
    require(false, name);
    return {};
  }

  std::vector<Tally> tallies(const std::string& name, std::int64_t count) const {
    const std::vector<std::int64_t> counts = tensor(name + ".count").to_vector<std::int64_t>();
    const std::vector<double> sums = tensor(name + ".sum").to_vector<double>();
    require(counts.size() == static_cast<std::size_t>(count) && sums.size() == counts.size(), name);
    std::vector<Tally> tallies;
    for (std::size_t i = 0; i < counts.size(); ++i) tallies.push_back({counts[i], sums[i]});
    return tallies;
  }

  void check_rated(const RatingTable& table) const {
    const std::vector<std::int64_t>& begin = table.rated_begin;
    require(begin.size() == static_cast<std::size_t>(table.users.size()) + 1 && begin[0] == 0 &&
                std::is_sorted(begin.begin(), begin.end()) &&
                begin.back() == static_cast<std::int64_t>(table.rated.size()),
            "rated_begin");
    require(std::all_of(table.rated.begin(), table.rated.end(),
                        [&](std::int64_t item) { return item >= 0 && item < table.items.size(); }),
            "rated");
  }

  const std::string& path_;
  io::Archive archive_;
};

}  // namespace

void save_rating_table(const RatingTable& table, const std::string& path) {
  io::Archive archive;
  archive.tensors = {
      {"users", text_of(table.users)},
      {"items", text_of(table.items)},
      {"facts", reals({table.mean, table.click_from})},
      {"times", table.has_time ? numbers({table.first_time, table.last_time}) : numbers({})},
      {"rated_begin", numbers(table.rated_begin)},
      {"rated", numbers(table.rated)}};
  add_tallies(archive, "by_user", table.by_user);
  add_tallies(archive, "by_item", table.by_item);
  io::write_archive(path, archive);
}

RatingTable load_rating_table(const std::string& path) { return TableReader(path).table(); }

}  // namespace lockstep::recipes
