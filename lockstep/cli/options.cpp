// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/options.h"

#include <fmt/core.h>

#include <cstdlib>

namespace lockstep::cli {
namespace {

CLI::Validator number_that(std::function<bool(double)> fits, const std::string& expected) {
  return CLI::Validator(
      [fits, expected](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (end != text.c_str() && *end == '\0' && fits(value)) return std::string();
        return fmt::format("got {}, expected a number {}", text, expected);
      },
      "");
}

}  // namespace

CLI::Validator at_least(double least) {
  return number_that([least](double value) { return value >= least; },
                     fmt::format("of at least {}", least));
}

CLI::Validator seconds() {
  return number_that([](double value) { return value > 0 && value <= kMostSeconds; },
                     fmt::format("above 0, at most {}", kMostSeconds));
}

}  // namespace lockstep::cli
