// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// FIPS 180-4.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  // Ends the sum.
  std::array<std::byte, 32> digest();
  // 64 hexadecimal digits. Ends the sum.
  std::string hex();

 private:
  void add_blocks(const std::byte* bytes, std::size_t count);
  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> pending_{};
  std::uint64_t length_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace lockstep
