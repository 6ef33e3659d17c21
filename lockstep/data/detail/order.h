// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data::detail {

// 64 random bits of an epoch: draw `index` of stream `use`.
std::uint64_t epoch_word(std::uint64_t seed, std::int64_t epoch, std::uint32_t use,
                         std::uint64_t index);

// Shuffles by Fisher and Yates' method: a pure function of (seed, epoch, use) and the values'
// order.
void shuffle(std::vector<std::int64_t>& values, std::uint64_t seed, std::int64_t epoch,
             std::uint32_t use = 0);

// first, ..., end - 1.
std::vector<std::int64_t> counting(std::int64_t first, std::int64_t end);

}  // namespace lockstep::data::detail
