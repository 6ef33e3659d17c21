// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace lockstep::cli {

// An option under a heading of the command's help.
template <class T>
CLI::Option* add(CLI::App& command, const char* group, const char* name, T& value, const char* type,
                 const char* what) {
  return command.add_option(name, value, what)->type_name(type)->group(group);
}

// A number that is not one is refused by the conversion, in CLI11's words.
CLI::Validator at_least(double least);
// In milliseconds it is still an int.
inline constexpr std::int64_t kMostSeconds = 1'000'000;
// Above 0, and at most that.
CLI::Validator seconds();

}  // namespace lockstep::cli
