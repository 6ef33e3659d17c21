// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {

// An empty variable is as good as none.
inline std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

inline std::string needed_variable(const char* name, const std::string& because) {
  if (auto value = variable(name)) return *value;
  throw InvalidArgument("{}: is not set in the environment, though {} is", name, because);
}

// Throws InvalidArgument naming the variable.
inline int number_variable(const char* name, const std::string& text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most)
    throw InvalidArgument("{}: is '{}', expected a number from {} to {}", name, text, least, most);
  return value;
}

}  // namespace lockstep::cluster::detail
