// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/ratings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "lockstep/base/memory_error.h"
#include "lockstep/data/detail/rating_columns.h"

namespace lockstep::data {

std::int64_t IdList::add(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  names_.emplace_back(name);
  numbers_.emplace(name, size() - 1);
  return size() - 1;
}

std::optional<std::int64_t> IdList::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

using detail::Columns;
using detail::RatingColumns;

template <class T>
bool parse_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// For a message: lines of files that are something else may be long.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

class RatingsReader {
 public:
  RatingsReader(std::string_view text, const std::string& name, const RatingsOptions& options)
      : rest_(text), name_(name), options_(options) {
    if (options.users != nullptr) ratings_.users = *options.users;
    if (options.items != nullptr) ratings_.items = *options.items;
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  }

  Ratings all() {
    while (!rest_.empty()) {
      const std::string_view line = next_line();
      if (detail::trim(line).empty()) continue;
      if (separator_.empty() && read_first(line)) continue;
      unless_bad([&] { read_row(line); });
    }
    if (!separator_.empty() && options_.ratings) leave_out_repeated();
    if (ratings_.size() == 0)
      throw Corrupt("{}: has no {}, expected lines of {}", name_,
                    options_.ratings ? "ratings" : "pairs", expected());
    return std::move(ratings_);
  }

 private:
  const char* expected() const {
    return options_.ratings ? "user, item, rating and perhaps a time" : "a user and an item";
  }

  std::string_view next_line() {
    const std::size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_;
    return line;
  }

  // What the first line tells of all others; true when that is all it tells.
  bool read_first(std::string_view line) {
    separator_ = detail::find_separator(line);
    detail::split_columns(line, separator_, columns_);
    count_ = columns_.size();
    const auto header = detail::read_header(columns_, options_.ratings);
    if (header)
      places_ = *header;
    else if (count_ > 3)
      places_.time = 3;
    return header.has_value();
  }

  template <class Work>
  void unless_bad(const Work& work) {
    if (!options_.skip_bad) return work();
    try {
      work();
    } catch (const Corrupt& error) {
      if (options_.warn) options_.warn(std::string(error.what()) + "; it is left out");
    }
  }

  template <class... A>
  [[noreturn]] void fail(std::int64_t line, fmt::format_string<A...> format, A&&... args) const {
    throw Corrupt("{}:{}: {}", name_, line, fmt::format(format, std::forward<A>(args)...));
  }

  void check_columns() const {
    const std::size_t least = options_.ratings ? 3 : 2;
    if (columns_.size() < least)
      fail(line_, "has {} column{}, expected {}", columns_.size(), columns_.size() == 1 ? "" : "s",
           expected());
    if (columns_.size() != count_)
      fail(line_, "has {} columns, expected {} as the first line has", columns_.size(), count_);
  }

  std::int64_t id(IdList& ids, const IdList* known, const char* what, std::size_t column) {
    const std::string_view name = columns_[column];
    if (name.empty()) fail(line_, "the {} is empty", what);
    if (known == nullptr) return ids.add(name);
    const std::optional<std::int64_t> number = known->find(name);
    if (!number) fail(line_, "{} '{}' was never trained on", what, shown(name));
    return *number;
  }

  float rating() const {
    float value = 0;
    if (!parse_number(columns_[places_.rating], value) || !std::isfinite(value))
      fail(line_, "the rating is '{}', expected a number", shown(columns_[places_.rating]));
    return value;
  }

  std::int64_t time() const {
    double value = 0;  // some files have parts of seconds
    const std::string_view text = columns_[places_.time];
    if (!parse_number(text, value) || !(std::abs(value) < 1e15))
      fail(line_, "the time is '{}', expected seconds since 1970", shown(text));
    return static_cast<std::int64_t>(std::floor(value));
  }

  // Nothing of a bad line stays.
  void read_row(std::string_view line) {
    detail::split_columns(line, separator_, columns_);
    check_columns();
    const bool has_time = options_.ratings && places_.time != RatingColumns::kNone;
    const float value = options_.ratings ? rating() : 0.0F;
    const std::int64_t when = has_time ? time() : 0;
    if (columns_[places_.item].empty()) fail(line_, "the item is empty");
    const std::int64_t user = id(ratings_.users, options_.users, "user", places_.user);
    const std::int64_t item = id(ratings_.items, options_.items, "item", places_.item);
    ratings_.user.push_back(user);
    ratings_.item.push_back(item);
    if (options_.ratings) ratings_.value.push_back(value);
    if (has_time) ratings_.time.push_back(when);
    ratings_.line.push_back(line_);
  }

  // A pair that was rated before, in any earlier line, is a bad line.
  void leave_out_repeated() {
    const std::vector<std::size_t> order = order_of_pairs();
    std::vector<std::pair<std::size_t, std::size_t>> repeated;  // and where it was first
    for (std::size_t i = 1, first = 0; i < order.size(); ++i) {
      if (is_same_pair(order[i], order[first]))
        repeated.emplace_back(order[i], order[first]);
      else
        first = i;
    }
    std::sort(repeated.begin(), repeated.end());
    std::vector<bool> left_out(ratings_.size());
    for (const auto& [again, first] : repeated)
      unless_bad([&, again = again, first = first] {
        left_out[again] = true;
        fail(ratings_.line[again], "user {} has rated item {} before, in line {}",
             shown(ratings_.users.name(ratings_.user[again])),
             shown(ratings_.items.name(ratings_.item[again])), ratings_.line[first]);
      });
    if (!repeated.empty()) erase(left_out);
  }

  bool is_same_pair(std::size_t a, std::size_t b) const {
    return ratings_.user[a] == ratings_.user[b] && ratings_.item[a] == ratings_.item[b];
  }

  std::vector<std::size_t> order_of_pairs() const {
    std::vector<std::size_t> order(ratings_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if (ratings_.user[a] != ratings_.user[b]) return ratings_.user[a] < ratings_.user[b];
      if (ratings_.item[a] != ratings_.item[b]) return ratings_.item[a] < ratings_.item[b];
      return a < b;
    });
    return order;
  }

  void erase(const std::vector<bool>& left_out) {
    const auto keep = [&](auto& column) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < column.size(); ++i)
        if (!left_out[i]) column[kept++] = column[i];
      column.resize(kept);
    };
    keep(ratings_.user);
    keep(ratings_.item);
    keep(ratings_.value);
    keep(ratings_.time);
    keep(ratings_.line);
  }

  std::string_view rest_;
  const std::string& name_;
  const RatingsOptions& options_;
  std::string_view separator_;  // empty: before the first line
  RatingColumns places_;
  std::size_t count_ = 0;  // columns of the first line
  Columns columns_;        // of the line being read
  std::int64_t line_ = 0;
  Ratings ratings_;
};

}  // namespace

Ratings parse_ratings(std::string_view text, const std::string& name,
                      const RatingsOptions& options) {
  return RatingsReader(text, name, options).all();
}

Ratings read_ratings(const std::string& path, const RatingsOptions& options) {
  const std::string text = read_plain_or_gzip(path, options.max_inflated);
  return with_memory_for(path, [&] { return parse_ratings(text, path, options); });
}

}  // namespace lockstep::data
