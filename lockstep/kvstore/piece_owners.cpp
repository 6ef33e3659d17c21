// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/piece_owners.h"

#include <algorithm>

namespace lockstep::kvstore {

PieceOwners::PieceOwners(const FlatLayout& layout, int workers)
    : layout_(layout), workers_(static_cast<std::size_t>(workers)) {
  std::vector<std::size_t> floats(workers_);
  for (const FlatPiece& piece : layout.pieces) {
    const auto least = std::min_element(floats.begin(), floats.end());
    *least += piece.size();
    owners_.push_back(static_cast<int>(least - floats.begin()));
  }
}

std::vector<std::size_t> PieceOwners::pieces_of(int worker) const {
  std::vector<std::size_t> pieces;
  for (std::size_t i = 0; i < owners_.size(); ++i)
    if (owners_[i] == worker) pieces.push_back(i);
  return pieces;
}

// What lies side by side travels together.
std::vector<comm::ElementRanges> PieceOwners::parts_in(std::size_t offset,
                                                       std::size_t count) const {
  std::vector<comm::ElementRanges> parts(workers_);
  for (const FlatPiece& piece : layout_.pieces_in(offset, count)) {
    const auto number = static_cast<std::size_t>(&piece - layout_.pieces.data());
    comm::ElementRanges& own = parts[static_cast<std::size_t>(owners_[number])];
    const std::size_t begin = piece.offset - offset;
    if (!own.empty() && own.back().end == begin)
      own.back().end += piece.size();
    else
      own.push_back({begin, begin + piece.size()});
  }
  return parts;
}

}  // namespace lockstep::kvstore
