// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/shape.h"

namespace lockstep::detail {

// For each axis, the inner position that each padded position shows (modes edge, reflect and
// circular).
inline std::vector<std::vector<std::int64_t>> pad_maps(const Shape& inner, const Ints& widths,
                                                       const std::string& mode) {
  std::vector<std::vector<std::int64_t>> maps(static_cast<std::size_t>(inner.rank()));
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    const std::int64_t size = inner[static_cast<int>(axis)], last = size - 1;
    for (std::int64_t p = -widths[2 * axis]; p <= last + widths[2 * axis + 1]; ++p) {
      const std::int64_t mirrored = last - std::abs(last - std::abs(p));
      if (mode == "edge")
        maps[axis].push_back(std::clamp<std::int64_t>(p, 0, last));
      else
        maps[axis].push_back(mode == "circular" ? (p + size) % size : mirrored);
    }
  }
  return maps;
}

}  // namespace lockstep::detail
