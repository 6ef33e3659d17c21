// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

// What a random number depends on, besides its own index: never on what was drawn before.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t shard = 0;
  std::uint32_t use = 0;
};

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
// The seed is the cipher's key; (block, use, step, shard) is the counter it encrypts.
inline std::array<std::uint32_t, 4> philox(const RandomKey& key, std::uint32_t block) {
  std::uint32_t c0 = block, c1 = key.use, c2 = key.step, c3 = key.shard;
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// The 32 random bits of element `index`.
inline std::uint32_t random_bits(const RandomKey& key, std::uint64_t index) {
  return philox(key, static_cast<std::uint32_t>(index >> 2))[index & 3];
}

// [0, 1) with 24 random bits.
inline float unit_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace lockstep
