// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace lockstep::optim {

// A parameter is updated and measured in pieces of this many elements (the last may be shorter), so
// that sums over it have one order on any number of threads.
constexpr std::size_t kPieceElements = 16384;

constexpr std::size_t count_pieces(std::size_t elements) {
  return (elements + kPieceElements - 1) / kPieceElements;
}

// Elements [begin, end) of piece `index`.
struct PieceRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

constexpr PieceRange piece_range(std::size_t elements, std::size_t index) {
  const std::size_t begin = index * kPieceElements;
  return {begin, std::min(elements, begin + kPieceElements)};
}

// In double, of at most one piece: the order within it is fixed, whatever the vector's width.
double piece_sum_of_squares(std::span<const float> values);

// What gradients of this norm are multiplied by, so that it is at most `limit`; 0: no limit.
constexpr double clip_factor(double norm, double limit) {
  return limit > 0.0 && norm > limit ? limit / norm : 1.0;
}

}  // namespace lockstep::optim
