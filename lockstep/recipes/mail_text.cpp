// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/mail_text.h"

#include <algorithm>
#include <cctype>

namespace lockstep::recipes {
namespace {

constexpr std::string_view kSubject = "Subject:";

// "From joe@example.org Sat Sep 14", or a name that ends with a colon.
bool is_header(std::string_view line) {
  if (line.starts_with("From ")) return true;
  const std::size_t colon = line.find(':');
  return colon != 0 && colon != std::string_view::npos &&
         std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](unsigned char c) { return std::isalnum(c) || c == '-'; });
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool is_blank(std::string_view line) { return line.empty() || line == "\r"; }

// The length of the markup that text begins with; 0 for a bracket that is none.
std::size_t markup_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '<') return 0;
  const auto next = static_cast<unsigned char>(text[1]);
  if (!std::isalpha(next) && next != '/' && next != '!') return 0;
  const std::size_t close = text.substr(0, 1000).find('>');
  return close == std::string_view::npos ? 0 : close + 1;
}

std::string without_markup(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t markup = markup_length(text);
    result += markup > 0 ? ' ' : text[0];
    text.remove_prefix(std::max<std::size_t>(markup, 1));
  }
  return result;
}

}  // namespace

std::string readable_text(std::string_view text) {
  std::string_view rest = text;
  if (!is_header(take_line(rest))) return without_markup(text);
  std::string subject;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (is_blank(line)) return subject + "\n" + without_markup(rest);
    if (line.starts_with(kSubject)) subject = line.substr(kSubject.size());
  }
  return without_markup(text);  // nothing below the headers: they are none
}

bool is_telling(std::string_view token) {
  if (token == "!" || token == "$") return true;
  return std::any_of(token.begin(), token.end(),
                     [](unsigned char c) { return std::isalnum(c) || c >= 0x80; });
}

}  // namespace lockstep::recipes
