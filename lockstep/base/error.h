// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace lockstep {

// What a user or the world did: typed, recoverable, one clear line. docs/errors.md lists them.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual const char* kind() const noexcept = 0;
};

template <class Tag>
class TypedError : public Error {
 public:
  using Error::Error;
  template <class... A>
  requires(sizeof...(A) > 0) explicit TypedError(fmt::format_string<A...> format, A&&... args)
      : Error(fmt::format(format, std::forward<A>(args)...)) {}
  const char* kind() const noexcept override { return Tag::kName; }
};

namespace error_tags {
struct InvalidArgument {
  static constexpr const char* kName = "InvalidArgument";
};
struct NotFound {
  static constexpr const char* kName = "NotFound";
};
struct OutOfMemory {
  static constexpr const char* kName = "OutOfMemory";
};
struct Corrupt {
  static constexpr const char* kName = "Corrupt";
};
struct IoError {
  static constexpr const char* kName = "IoError";
};
struct Unsupported {
  static constexpr const char* kName = "Unsupported";
};
}  // namespace error_tags

using InvalidArgument = TypedError<error_tags::InvalidArgument>;
using NotFound = TypedError<error_tags::NotFound>;
using OutOfMemory = TypedError<error_tags::OutOfMemory>;
using Corrupt = TypedError<error_tags::Corrupt>;
using IoError = TypedError<error_tags::IoError>;
using Unsupported = TypedError<error_tags::Unsupported>;

// What only a bug in Lockstep can do. Never thrown for user input.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A place in the sources. std::source_location would do, but clang 14 has none.
struct SourceLine {
  const char* file;
  int line;
  static constexpr SourceLine current(const char* file = __builtin_FILE(),
                                      int line = __builtin_LINE()) {
    return {file, line};
  }
};

[[noreturn]] void fail_check(const char* what, const SourceLine& where = SourceLine::current());

inline void check(bool condition, const char* what,
                  const SourceLine& where = SourceLine::current()) {
  if (!condition) [[unlikely]]
    fail_check(what, where);
}

}  // namespace lockstep
