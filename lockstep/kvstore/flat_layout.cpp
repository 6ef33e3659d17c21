// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/flat_layout.h"

namespace lockstep::kvstore {

void FlatLayout::add(FlatParameter parameter) {
  parameter.offset = floats;
  floats += aligned(parameter.count * sizeof(float)) / sizeof(float);
  for (std::size_t p = 0; p < optim::count_pieces(parameter.count); ++p) {
    const optim::PieceRange range = optim::piece_range(parameter.count, p);
    pieces.push_back({parameters.size(), range, parameter.offset + range.begin});
  }
  parameters.push_back(parameter);
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
