// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::train::detail {

constexpr int kNumberBits = 24;  // as many as a float32 holds exactly

// How many parts the numbers of so many elements have.
inline int number_parts(std::int64_t elements) { return elements >> kNumberBits == 0 ? 1 : 2; }

// Some bits of each element's number: part 0 has the lowest ones, part 1 those above. They count
// from 1, so that no element looks like the zeros between them.
inline Tensor element_numbers(const Shape& shape, int part) {
  const Tensor numbers = Tensor::empty(shape);
  const std::span<float> all(numbers.data<float>(), static_cast<std::size_t>(numbers.numel()));
  constexpr std::size_t kMask = (std::size_t{1} << kNumberBits) - 1;
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(((i + 1) >> (part * kNumberBits)) & kMask);
  return numbers;
}

}  // namespace lockstep::train::detail
