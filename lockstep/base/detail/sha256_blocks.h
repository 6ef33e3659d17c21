// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

using Sha256State = std::array<std::uint32_t, 8>;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
extern const std::array<std::uint32_t, 64> kSha256Rounds;

// Blocks of 64 bytes, in plain C++.
void add_sha256_blocks(Sha256State& state, const std::byte* bytes, std::size_t count);
// The same with the processor's instructions for it. Only where has_sha256_instructions().
void add_sha256_blocks_native(Sha256State& state, const std::byte* bytes, std::size_t count);
bool has_sha256_instructions();

}  // namespace lockstep::detail
