// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::comm {

// A part of an array of elements.
struct ElementRange {
  std::size_t begin, end;
  std::size_t count() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

// Several of them, in order: what a rank has of the array.
using ElementRanges = std::vector<ElementRange>;

}  // namespace lockstep::comm
