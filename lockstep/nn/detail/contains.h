// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "lockstep/nn/block.h"

namespace lockstep::nn::detail {

// Whether `inner` is the block or one of its descendants: then it cannot have the block as a child.
inline bool contains(const Block& block, const Block& inner) {
  return &block == &inner ||
         std::any_of(block.children().begin(), block.children().end(),
                     [&](const Block::Child& child) { return contains(*child.block, inner); });
}

}  // namespace lockstep::nn::detail
