// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::detail {

// begin:end:step on an axis, resolved as Python does: the first position, and how many.
struct SliceRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
};

inline SliceRange resolve_slice(std::int64_t size, std::int64_t begin, std::int64_t end,
                                std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](std::int64_t p) { return std::clamp(p < 0 ? p + size : p, low, high); };
  const std::int64_t first = place(begin);
  const std::int64_t distance = step > 0 ? place(end) - first : first - place(end);
  if (distance <= 0) return {first, 0, 1};
  const std::int64_t count = step > 0 ? (distance - 1) / step + 1 : (1 - distance) / step + 1;
  // A step that is never taken may be too large to multiply by a stride.
  return {first, count, count > 1 ? step : 1};
}

}  // namespace lockstep::detail
