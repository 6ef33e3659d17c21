// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::data::detail {

using Columns = std::vector<std::string_view>;

// Without the blanks around it.
std::string_view trim(std::string_view text);

// "::", a tab, a comma, a semicolon, or a blank (which then stands for any number of them).
std::string_view find_separator(std::string_view line);
// Trimmed and without quotes around them.
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
