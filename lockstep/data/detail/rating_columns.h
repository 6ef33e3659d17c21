// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data::detail {

// The columns of a line: windows on it, and texts of their own where a quote stands for two.
class Columns {
 public:
  void clear();
  void add(std::string_view text) { columns_.push_back(text); }
  void add_copy(std::string text) { add(copies_.emplace_back(std::move(text))); }
  std::size_t size() const { return columns_.size(); }
  std::string_view operator[](std::size_t place) const { return columns_[place]; }

 private:
  std::vector<std::string_view> columns_;
  std::deque<std::string> copies_;
};

// Without the blanks around it.
std::string_view trim(std::string_view text);

// "::", a tab, a comma, a semicolon, or a blank (which then stands for any number of them): the
// first of these that stands outside of quotes.
std::string_view find_separator(std::string_view line);
// Trimmed and without quotes around them; what separates columns may be part of a quoted one.
void split_columns(std::string_view line, std::string_view separator, Columns& columns);

// Where a line has what; kNone where it has not.
struct RatingColumns {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t user = 0, item = 1, rating = 2, time = kNone;
};

// The places by a header's names; none when the line is no header. `ratings`: whether a rating has
// to be among them.
std::optional<RatingColumns> read_header(const Columns& line, bool ratings);

}  // namespace lockstep::data::detail
