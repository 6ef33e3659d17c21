// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/options.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace lockstep::cli {
namespace {

// "of at least 1" where only a computer knows the other end.
template <class T>
std::string range_text(T least, T most) {
  if (most == std::numeric_limits<T>::max() && least != std::numeric_limits<T>::lowest())
    return fmt::format(" of at least {}", least);
  return most == std::numeric_limits<T>::max() ? "" : fmt::format(" from {} to {}", least, most);
}

bool is_number(const std::string& text) {
  const std::size_t begin = text.find_first_not_of("+-");
  return begin <= 1 && text.find_first_not_of("0123456789", begin) == std::string::npos;
}

CLI::Validator number_that(std::function<bool(double)> fits, const std::string& expected) {
  return CLI::Validator(
      [fits, expected](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool is_decimal = text.find_first_of("xX") == std::string::npos;
        if (is_decimal && end != text.c_str() && *end == '\0' && fits(value)) return std::string();
        return fmt::format("got {}, expected a number{}", text, expected);
      },
      "");
}

}  // namespace

template <class T>
CLI::Validator whole_number(T least, T most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
        const char* end = text.data() + text.size();
        T value{};
        const auto [stop, error] = std::from_chars(begin, end, value);
        const bool is_whole = error == std::errc() && stop == end;
        if (is_whole && value >= least && value <= most) {
          text = std::to_string(value);
          return std::string();
        }
        const bool is_far = error == std::errc::result_out_of_range && is_number(text);
        return fmt::format(
            "got {}, expected a whole number{}", text,
            is_far ? fmt::format(" from {} to {}", least, most) : range_text(least, most));
      },
      "");
}

template CLI::Validator whole_number(std::int64_t least, std::int64_t most);
template CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
template CLI::Validator whole_number(int least, int most);

CLI::Validator real_number(double least, double most) {
  return number_that(
      [=](double value) { return std::isfinite(value) && value >= least && value <= most; },
      range_text(least, most));
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, "");
}

CLI::Validator seconds() {
  return number_that([](double value) { return value > 0 && value <= kMostSeconds; },
                     fmt::format(" above 0, at most {}", kMostSeconds));
}

}  // namespace lockstep::cli
