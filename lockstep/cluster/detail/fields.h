// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/membership.h"

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
  bool is_at_end() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw Corrupt("message: ends {} bytes early", count - rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view rest_;
};

// A struct that is sent lists its members once: `auto fields() { return std::tie(a, b); }`.
template <class T>
concept Sendable = requires(T& value) {
  value.fields();
};

template <class T>
requires std::is_integral_v<T> || std::is_enum_v<T>
void write_field(FieldWriter& writer, const T& value) {
  writer.number(static_cast<std::int64_t>(value));
}
inline void write_field(FieldWriter& writer, const std::string& value) { writer.text(value); }
inline void write_field(FieldWriter& writer, const std::chrono::milliseconds& value) {
  writer.number(value.count());
}
template <class T>
void write_field(FieldWriter& writer, const std::vector<T>& values);
template <Sendable T>
void write_field(FieldWriter& writer, const T& value) {
  std::apply([&](auto&... each) { (write_field(writer, each), ...); }, T(value).fields());
}
inline void write_field(FieldWriter& writer, const Member& value) {
  write_field(writer, value.id);
  write_field(writer, value.host);
  write_field(writer, value.role);
}
inline void write_field(FieldWriter& writer, const Membership& value) {
  write_field(writer, value.generation);
  write_field(writer, value.members);
}
template <class T>
void write_field(FieldWriter& writer, const std::vector<T>& values) {
  writer.number(static_cast<std::int64_t>(values.size()));
  for (const T& value : values) write_field(writer, value);
}

template <class T>
requires std::is_integral_v<T> || std::is_enum_v<T>
void read_field(FieldReader& reader, T& value) { value = static_cast<T>(reader.number()); }
inline void read_field(FieldReader& reader, Role& value) {
  const std::int64_t number = reader.number();
  if (number != 0 && number != 1) throw Corrupt("message: role {}, expected 0 or 1", number);
  value = static_cast<Role>(number);
}
inline void read_field(FieldReader& reader, std::string& value) { value = reader.text(); }
inline void read_field(FieldReader& reader, std::chrono::milliseconds& value) {
  value = std::chrono::milliseconds(reader.number());
}
template <class T>
void read_field(FieldReader& reader, std::vector<T>& values);
template <Sendable T>
void read_field(FieldReader& reader, T& value) {
  std::apply([&](auto&... each) { (read_field(reader, each), ...); }, value.fields());
}
inline void read_field(FieldReader& reader, Member& value) {
  read_field(reader, value.id);
  read_field(reader, value.host);
  read_field(reader, value.role);
}
inline void read_field(FieldReader& reader, Membership& value) {
  read_field(reader, value.generation);
  read_field(reader, value.members);
}
// One by one: a number that is too large must not ask for memory.
template <class T>
void read_field(FieldReader& reader, std::vector<T>& values) {
  values.clear();
  for (std::int64_t left = reader.number(); left > 0; --left)
    read_field(reader, values.emplace_back());
}

// All of a struct's fields, and nothing behind them. Throws Corrupt.
template <Sendable T>
T from_bytes(std::string_view bytes) {
  FieldReader reader(bytes);
  T value;
  read_field(reader, value);
  if (!reader.is_at_end()) throw Corrupt("message: {} bytes too many", reader.left());
  return value;
}
template <Sendable T>
std::string to_bytes(const T& value) {
  FieldWriter writer;
  write_field(writer, value);
  return writer.bytes();
}

}  // namespace lockstep::cluster::detail
