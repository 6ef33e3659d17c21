// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::data::detail {

// The caller has checked that there are sizeof(T) bytes.
template <class T>
T big_endian(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value << 8 | static_cast<std::uint8_t>(bytes[i]));
  return value;
}

template <class T>
T little_endian(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;)
    value = static_cast<T>(value << 8 | static_cast<std::uint8_t>(bytes[i]));
  return value;
}

template <class T>
void append_little_endian(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

}  // namespace lockstep::data::detail
