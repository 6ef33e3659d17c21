// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace lockstep {

// On standard error. Where nobody can read it, that changes nothing of what is done.
template <class... Values>
void print_error(fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = fmt::format(format, std::forward<Values>(values)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

inline void print_warning(const std::string& line) { print_error("warning: {}\n", line); }

}  // namespace lockstep
