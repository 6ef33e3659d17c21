// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

// The CRC of RFC 3720 (Castagnoli's polynomial). `before` is the sum of the bytes in front.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace lockstep
