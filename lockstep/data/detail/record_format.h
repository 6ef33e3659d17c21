// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/data/detail/bytes.h"

namespace lockstep::data::detail {

// A record is one part, or several: wherever its bytes have the magic number on a multiple of four,
// the writer ends a part and leaves the number out, so that whoever searches for it finds starts of
// parts only. A part is the magic number, three bits of kind and 29 of length, the bytes, and zeros
// up to a multiple of four. All little endian.

inline constexpr std::uint32_t kRecordMagic = 0xced7230a;
inline constexpr std::size_t kPartHeaderBytes = 8;
inline constexpr std::uint32_t kLengthBits = 29;

enum class Part : std::uint32_t { whole = 0, first = 1, middle = 2, last = 3 };

struct PartHeader {
  std::uint32_t magic;
  Part part;
  std::uint32_t length;
};

// The caller has checked that there are kPartHeaderBytes.
inline PartHeader parse_part_header(std::string_view bytes) {
  const auto word = little_endian<std::uint32_t>(bytes.substr(4));
  return {little_endian<std::uint32_t>(bytes), static_cast<Part>(word >> kLengthBits),
          word & ((1U << kLengthBits) - 1)};
}

inline bool begins_record(Part part) { return part == Part::whole || part == Part::first; }
inline bool continues_record(Part part) { return part == Part::middle || part == Part::last; }

inline std::uint64_t padded(std::uint64_t length) { return (length + 3) / 4 * 4; }

}  // namespace lockstep::data::detail
