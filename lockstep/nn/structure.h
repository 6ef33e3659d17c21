// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// What a trace of blocks depends on beside its inputs: the blocks as they stand, with all that is
// in them. Looking costs little, so that it can be done in each call: where nothing has changed, a
// list that is filled again allocates nothing.
struct Structure {
  std::vector<const void*> parameters = {};  // identities, block by block
  std::vector<bool> stays = {};              // frozen, or without a gradient
  std::vector<Block::State> states = {};
  bool operator==(const Structure&) const = default;
  void clear();
  void add(const Block& block);
};

}  // namespace lockstep::nn
