// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Two small hexadecimal digits for each byte.
std::string to_hex(std::span<const std::byte> bytes);
inline std::string to_hex(std::string_view bytes) {
  return to_hex(std::as_bytes(std::span(bytes)));
}

}  // namespace lockstep
