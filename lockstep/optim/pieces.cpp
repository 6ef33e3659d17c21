// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/pieces.h"

namespace lockstep::optim {

double sum_of_squares(std::span<const float> values) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count_pieces(values.size()); ++i) {
    const PieceRange range = piece_range(values.size(), i);
    sum += piece_sum_of_squares(values.subspan(range.begin, range.size()));
  }
  return sum;
}

}  // namespace lockstep::optim
