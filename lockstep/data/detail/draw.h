// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/philox.h"

namespace lockstep::data::detail {

// One seed serves the whole run. Each kind of draw turns it into a key of its own, so that an order
// of samples shares no word with a transform, nor either with a dropout mask.
inline constexpr std::uint64_t kOrderStream = 0x73616d706c657273;
inline constexpr std::uint64_t kTransformStream = 0x7472616e73666f72;

// Word `k` of what a transform may draw.
inline std::uint32_t word(RandomKey key, std::uint32_t k) {
  key.use += k;
  return random_bits(key, 0);
}

inline double uniform(const RandomKey& key, std::uint32_t k, double low, double high) {
  return low + (high - low) * (static_cast<double>(word(key, k)) * 0x1p-32);
}

// 0 to n - 1, by one multiplication: no retry, so that each draw takes exactly one word.
inline std::int64_t below(const RandomKey& key, std::uint32_t k, std::int64_t n) {
  return static_cast<std::int64_t>((std::uint64_t{word(key, k)} * static_cast<std::uint64_t>(n)) >>
                                   32);
}

}  // namespace lockstep::data::detail
