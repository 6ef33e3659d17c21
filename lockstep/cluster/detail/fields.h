// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {

// A message's fields one after the other: numbers of 8 bytes, texts with their length before them.
class FieldWriter {
 public:
  FieldWriter& number(std::int64_t value) {
    for (int i = 0; i < 8; ++i)
      bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
    return *this;
  }
  FieldWriter& text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  FieldWriter& texts(const std::vector<std::string>& values) {
    number(static_cast<std::int64_t>(values.size()));
    for (const std::string& value : values) text(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Throws Corrupt when the bytes end too early.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  std::int64_t number() {
    const std::string_view bytes = take(8);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return static_cast<std::int64_t>(value);
  }
  std::string text() { return std::string(take(static_cast<std::uint64_t>(number()))); }
  std::vector<std::string> texts() {
    const auto count = static_cast<std::uint64_t>(number());
    if (count > rest_.size()) throw Corrupt("message: {} texts in {} bytes", count, rest_.size());
    std::vector<std::string> values;
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(text());
    return values;
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw Corrupt("message: ends {} bytes early", count - rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view rest_;
};

}  // namespace lockstep::cluster::detail
