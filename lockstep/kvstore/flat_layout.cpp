// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/flat_layout.h"

namespace lockstep::kvstore {

void FlatLayout::add(FlatSlice slice) {
  slice.offset = floats;
  floats += aligned(slice.count * sizeof(float)) / sizeof(float);
  for (std::size_t p = 0; p < optim::count_pieces(slice.count); ++p) {
    const optim::PieceRange range = optim::piece_range(slice.count, p);
    pieces.push_back({slices.size(), range, slice.offset + range.begin});
  }
  slices.push_back(slice);
}

std::span<const FlatPiece> FlatLayout::pieces_in(std::size_t offset, std::size_t count) const {
  const auto before = [](const FlatPiece& piece, std::size_t place) {
    return piece.offset < place;
  };
  const auto begin = std::lower_bound(pieces.begin(), pieces.end(), offset, before);
  const auto end = std::lower_bound(begin, pieces.end(), offset + count, before);
  return {begin, end};
}

}  // namespace lockstep::kvstore
