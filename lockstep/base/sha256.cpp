// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/sha256.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "lockstep/base/detail/sha256_blocks.h"

namespace lockstep {
namespace detail {

const std::array<std::uint32_t, 64> kSha256Rounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, 4);
  return __builtin_bswap32(word);
}

static void add_block(Sha256State& state, const std::byte* bytes) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    const std::uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const std::uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Rounds[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += sums[i];
}

void add_sha256_blocks(Sha256State& state, const std::byte* bytes, std::size_t count) {
  for (; count > 0; --count, bytes += 64) add_block(state, bytes);
}

}  // namespace detail

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::add_blocks(const std::byte* bytes, std::size_t count) {
  static const bool native = detail::has_sha256_instructions();
  if (native)
    detail::add_sha256_blocks_native(state_, bytes, count);
  else
    detail::add_sha256_blocks(state_, bytes, count);
}

void Sha256::update(std::span<const std::byte> bytes) {
  std::size_t held = length_ % 64;
  length_ += bytes.size();
  while (!bytes.empty()) {
    if (held == 0 && bytes.size() >= 64) {
      add_blocks(bytes.data(), bytes.size() / 64);
      bytes = bytes.subspan(bytes.size() / 64 * 64);
      continue;
    }
    const std::size_t taken = std::min(64 - held, bytes.size());
    std::memcpy(pending_.data() + held, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    held = (held + taken) % 64;
    if (held == 0) add_blocks(pending_.data(), 1);
  }
}

std::array<std::byte, 32> Sha256::digest() {
  const std::uint64_t bits = __builtin_bswap64(length_ * 8);
  const std::byte one{0x80}, zero{0};
  update({&one, 1});
  while (length_ % 64 != 56) update({&zero, 1});
  update(std::as_bytes(std::span(&bits, 1)));
  std::array<std::byte, 32> digest;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string Sha256::hex() {
  std::string text;
  for (std::byte byte : digest()) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.hex();
}

}  // namespace lockstep
