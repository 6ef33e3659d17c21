// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/host_list.h"

#include <charconv>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostHosts = 1 << 16;

// At commas outside brackets.
std::vector<std::string_view> split_names(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    if (i > begin) parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

int parse_number(std::string_view digits, std::string_view whole) {
  int value = -1;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || stop != digits.data() + digits.size() || value < 0)
    throw InvalidArgument("host list: '{}' in '{}', expected a number", digits, whole);
  return value;
}

// "08-10" or "12"; leading zeros stay.
void append_range(std::string_view range, std::string_view whole, std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const int first = parse_number(low, whole), last = parse_number(high, whole);
  if (last < first || last - first > kMostHosts)
    throw InvalidArgument("host list: '{}' in '{}', expected a range", range, whole);
  for (int i = first; i <= last; ++i) out.push_back(fmt::format("{:0{}}", i, low.size()));
}

void append_names(std::string_view part, std::vector<std::string>& names) {
  const std::size_t open = part.find('['), close = part.find(']');
  if (open == std::string_view::npos && close == std::string_view::npos)
    return names.emplace_back(part), void();
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    throw InvalidArgument("host list: '{}', expected a closed pair of brackets", part);
  std::vector<std::string> numbers, rest;
  for (std::string_view range : split_names(part.substr(open + 1, close - open - 1)))
    append_range(range, part, numbers);
  append_names(part.substr(close + 1), rest);  // more brackets, or what is behind them
  for (const std::string& number : numbers)
    for (const std::string& end : rest)
      names.push_back(fmt::format("{}{}{}", part.substr(0, open), number, end));
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view text) {
  std::vector<std::string> names;
  for (std::string_view part : split_names(text)) append_names(part, names);
  return names;
}

}  // namespace lockstep::cluster::detail
