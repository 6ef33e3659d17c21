// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// An option under a heading of the command's help.
template <class T>
CLI::Option* add(CLI::App& command, const char* group, const char* name, T& value, const char* type,
                 const char* what) {
  return command.add_option(name, value, what)->type_name(type)->group(group);
}

// A number that is not one is refused by the conversion, in CLI11's words.
CLI::Validator at_least(double least);
// Of an option in seconds.
CLI::Validator more_than_zero();

}  // namespace lockstep::cli
