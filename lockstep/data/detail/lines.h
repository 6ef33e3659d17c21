// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {

// The lines of a small text file, counted from 1. The last one must end with a line break, so that
// a file that was cut is known by that.
class Lines {
 public:
  Lines(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  bool more() const { return !text_.empty(); }

  std::string_view next() {
    ++number_;
    const std::size_t end = text_.find('\n');
    if (text_.empty()) fail("the file ends here, expected more lines");
    if (end == std::string_view::npos) fail("the file ends in the middle of this line");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return line;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Corrupt("{}:{}: {}", name_, number_, what);
  }

 private:
  std::string_view text_;
  const std::string& name_;
  std::int64_t number_ = 0;
};

inline std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

// The count of a first line "KIND 1 COUNT".
inline std::int64_t read_header(Lines& lines, const std::string& kind) {
  const std::string_view line = lines.next();
  const std::string start = kind + " 1 ";
  const auto count =
      line.starts_with(start) ? whole_number(line.substr(start.size())) : std::nullopt;
  if (!count) lines.fail(fmt::format("got '{}', expected '{} 1 COUNT'", line.substr(0, 60), kind));
  return *count;
}

}  // namespace lockstep::data::detail
