// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

namespace lockstep::cli {

// What an option's variable holds: T, also of optional and vector of T.
template <class T>
struct ValueOf {
  using type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};
template <class T>
struct ValueOf<std::vector<T>> {
  using type = T;
};
template <class T>
using value_of = typename ValueOf<T>::type;

// An option under a heading of the command's help. Numbers have functions of their own, below.
template <class T>
CLI::Option* add(CLI::App& command, const char* group, const char* name, T& value, const char* type,
                 const char* what) {
  static_assert(!std::is_arithmetic_v<value_of<T>>, "add_count or add_real");
  return command.add_option(name, value, what)->type_name(type)->group(group);
}

// A decimal number of T's from `least` to `most`. CLI11 would take one that does not fit for the
// largest that does, one below 0 for a large one, and one that begins with 0 for octal: the text is
// brought into the one form about which all agree. For transform().
template <class T>
CLI::Validator whole_number(T least, T most = std::numeric_limits<T>::max());

// A whole number.
template <class T>
CLI::Option* add_count(CLI::App& command, const char* group, const char* name, T& value,
                       const char* type, const char* what, value_of<T> least = 1,
                       value_of<T> most = std::numeric_limits<value_of<T>>::max()) {
  return command.add_option(name, value, what)
      ->type_name(type)
      ->group(group)
      ->transform(whole_number<value_of<T>>(least, most));
}

// A number that is neither infinite nor none at all, from `least` to `most`.
CLI::Validator real_number(double least = std::numeric_limits<double>::lowest(),
                           double most = std::numeric_limits<double>::max());

template <class T>
CLI::Option* add_real(CLI::App& command, const char* group, const char* name, T& value,
                      const char* type, const char* what,
                      const CLI::Validator& valid = real_number()) {
  return command.add_option(name, value, what)->type_name(type)->group(group)->check(valid);
}

// A shell's variable that is not set gives an empty text, which must not mean that nothing is
// given.
CLI::Validator not_empty();

// Of one process.
inline constexpr int kMostThreads = 4096;

// In milliseconds it is still an int.
inline constexpr std::int64_t kMostSeconds = 1'000'000;
// Above 0, and at most that.
CLI::Validator seconds();

}  // namespace lockstep::cli
