// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/comm/element.h"

namespace lockstep::comm {

// target[i] = a[i] op b[i]; a copy gets the same. Both may be a or b. 16-bit numbers are computed
// as float and rounded to nearest even. A NaN in a minimum or maximum stays one.
void combine(Element element, Reduction reduction, const std::byte* a, const std::byte* b,
             std::byte* target, std::size_t count, std::byte* copy = nullptr);

// Adds up many sources in the order of a program as plan_rest makes them, in tiles that stay in
// the first-level cache.
class Fold {
 public:
  Fold(std::vector<int> program, Element element, Reduction reduction);
  // The target may be one of the sources. The copies get the same, tile by tile, while it is hot.
  void run(std::span<const std::byte* const> sources, std::byte* target, std::size_t count,
           std::span<std::byte* const> copies = {});

 private:
  void run_tile(std::span<const std::byte* const> sources, std::byte* target, std::size_t begin,
                std::size_t count);

  std::vector<int> program_;
  Element element_;
  Reduction reduction_;
  std::vector<std::byte> tiles_;
  std::vector<const std::byte*> stack_;
};

}  // namespace lockstep::comm
