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

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void skip_blanks(std::string_view& line, std::string_view separator) {
  while (!line.empty() && is_blank(line.front()) && !line.starts_with(separator))
    line.remove_prefix(1);
}

// Whether a column may end before `rest`, whatever blanks come between.
bool ends_before(std::string_view rest, std::string_view separator) {
  if (separator == " ") return rest.empty() || is_blank(rest.front());
  skip_blanks(rest, separator);
  return rest.starts_with(separator) || rest.empty();
}

// Of a column that begins with a quote: the place of the one that closes it, where two in a row
// are a quote of the text's; npos where there is none, so that the first is one of the text's too.
std::size_t closing_quote(std::string_view line, std::string_view separator) {
  for (std::size_t at = line.find('"', 1); at != std::string_view::npos;
       at = line.find('"', at + 1)) {
    if (ends_before(line.substr(at + 1), separator)) return at;
    if (line.substr(at + 1).starts_with('"')) ++at;
  }
  return std::string_view::npos;
}

void add_quoted(std::string_view text, Columns& columns) {
  if (text.find("\"\"") == std::string_view::npos) return columns.add(trim(text));
  std::string single;
  for (std::size_t i = 0; i < text.size(); ++i) {
    single.push_back(text[i]);
    if (text.substr(i).starts_with("\"\"")) ++i;
  }
  columns.add_copy(std::string(trim(single)));
}

// Takes the column at the beginning of the line away from it, with the blanks before it.
void take_column(std::string_view& line, std::string_view separator, Columns& columns) {
  skip_blanks(line, separator);
  const std::size_t close =
      line.starts_with('"') ? closing_quote(line, separator) : std::string_view::npos;
  if (close != std::string_view::npos) {
    add_quoted(line.substr(1, close - 1), columns);
    return line.remove_prefix(close + 1);
  }
  const std::size_t end =
      std::min(separator == " " ? line.find_first_of(" \t") : line.find(separator), line.size());
  columns.add(trim(line.substr(0, end)));
  line.remove_prefix(end);
}

void split_at_blanks(std::string_view line, Columns& columns) {
  for (line = trim(line); !line.empty(); line = trim(line)) take_column(line, " ", columns);
}

}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string_view find_separator(std::string_view line) {
  std::string plain;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) plain.push_back(c);
  }
  if (quoted) plain = line;  // one that is never closed is part of a text
  for (const std::string_view separator : {"::", "\t", ",", ";"})
    if (plain.find(separator) != std::string::npos) return separator;
  return " ";
}

void Columns::clear() {
  columns_.clear();
  copies_.clear();
}

void split_columns(std::string_view line, std::string_view separator, Columns& columns) {
  columns.clear();
  if (separator == " ") return split_at_blanks(line, columns);
  for (;;) {
    take_column(line, separator, columns);
    const std::size_t end = line.find(separator);
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
