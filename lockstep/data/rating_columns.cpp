// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/rating_columns.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

namespace lockstep::data::detail {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kUsers[] = {"user", "userid", "username", "reviewerid", "customerid"};
constexpr std::string_view kItems[] = {"item",    "itemid",    "movie",   "movieid",   "book",
                                       "bookid",  "isbn",      "product", "productid", "asin",
                                       "artist",  "artistid",  "song",    "songid",    "track",
                                       "trackid", "businessid"};
constexpr std::string_view kRatings[] = {"rating", "score", "stars", "overall", "value", "weight"};
constexpr std::string_view kTimes[] = {"time", "timestamp", "unixtime", "unixreviewtime"};

// "User-ID" and "user_id" are one name.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (std::string_view("_- .").find(c) == std::string_view::npos)
      plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return plain;
}

std::size_t find_column(const Columns& line, Names names) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (std::find(names.begin(), names.end(), plain_name(line[i])) != names.end()) return i;
  return RatingColumns::kNone;
}

std::string_view unquoted(std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) return text;
  return text.substr(1, text.size() - 2);
}

void split_at_blanks(std::string_view line, Columns& columns) {
  for (line = trim(line); !line.empty(); line = trim(line)) {
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    columns.push_back(unquoted(line.substr(0, end)));
    line.remove_prefix(end);
  }
}

}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string_view find_separator(std::string_view line) {
  for (const std::string_view separator : {"::", "\t", ",", ";"})
    if (line.find(separator) != std::string_view::npos) return separator;
  return " ";
}

void split_columns(std::string_view line, std::string_view separator, Columns& columns) {
  columns.clear();
  if (separator == " ") return split_at_blanks(line, columns);
  for (;;) {
    const std::size_t end = line.find(separator);
    columns.push_back(unquoted(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + separator.size());
  }
}

std::optional<RatingColumns> read_header(const Columns& line, bool ratings) {
  const RatingColumns columns{find_column(line, kUsers), find_column(line, kItems),
                              find_column(line, kRatings), find_column(line, kTimes)};
  const auto is_there = [](std::size_t place) { return place != RatingColumns::kNone; };
  if (!is_there(columns.user) || !is_there(columns.item)) return std::nullopt;
  if (ratings && !is_there(columns.rating)) return std::nullopt;
  return columns;
}

}  // namespace lockstep::data::detail
