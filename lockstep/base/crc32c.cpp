// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
constexpr std::size_t kSlices = 8;
using Table = std::array<std::uint32_t, 256>;

constexpr std::uint32_t shift_byte(std::uint32_t crc) {
  for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
  return crc;
}

// kTables[s][b]: what byte b does to the sum when s more bytes follow it.
constexpr std::array<Table, kSlices> make_tables() {
  std::array<Table, kSlices> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) tables[0][byte] = shift_byte(byte);
  for (std::size_t slice = 1; slice < kSlices; ++slice)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
    }
  return tables;
}

constexpr std::array<Table, kSlices> kTables = make_tables();

}  // namespace

// Eight bytes at a time: their eight table entries do not wait for each other.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  while (bytes.size() >= kSlices) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), kSlices);
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < kSlices; ++i)
      crc ^= kTables[kSlices - 1 - i][(word >> (8 * i)) & 0xFF];
    bytes.remove_prefix(kSlices);
  }
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

}  // namespace lockstep
