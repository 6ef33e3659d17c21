// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

// What convolutions and pools share: inputs [N, C, spatial...] and lists with one entry for each
// spatial axis.
namespace lockstep {

// No entry may be larger, so that sums and products of two do not overflow.
inline constexpr std::int64_t kMostSpatial = std::numeric_limits<std::int32_t>::max();

// A list in full: given so, as one entry for all axes, or not at all.
Ints spatial_list(const Ints& given, std::size_t count, std::int64_t none);
// The same, after checking its length and that no entry is below `least`.
Ints check_spatial_list(const char* op, const char* name, const Ints& given, std::size_t count,
                        std::int64_t none, std::int64_t least);
// Floating, with 1 to 3 spatial axes, none of size 0: their number.
std::size_t check_spatial_input(const char* op, const TensorInfo& input);

}  // namespace lockstep
