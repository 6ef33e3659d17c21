// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/comm/element_range.h"
#include "lockstep/kvstore/flat_layout.h"

namespace lockstep::kvstore {

// Which of several workers runs the rule for which pieces of a layout. A function of both alone:
// each piece in turn goes to the worker that has the fewest floats so far, so that in any stretch
// of the layout all have nearly as many.
class PieceOwners {
 public:
  // The layout outlives it.
  PieceOwners(const FlatLayout& layout, int workers);

  int owner_of(std::size_t piece) const { return owners_[piece]; }
  // Numbers of a worker's pieces, in order.
  std::vector<std::size_t> pieces_of(int worker) const;
  // By worker: where its pieces lie that begin in [offset, offset + count), from `offset` on.
  std::vector<comm::ElementRanges> parts_in(std::size_t offset, std::size_t count) const;

 private:
  const FlatLayout& layout_;
  std::size_t workers_;
  std::vector<int> owners_;  // by piece
};

}  // namespace lockstep::kvstore
