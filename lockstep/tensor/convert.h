// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "lockstep/tensor/half.h"

namespace lockstep {

// Dense runs of halves to float32 and back, as half.h converts them.
void convert_run(const BFloat16* source, float* target, std::size_t count);
void convert_run(const Float16* source, float* target, std::size_t count);
void convert_run(const float* source, BFloat16* target, std::size_t count);
void convert_run(const float* source, Float16* target, std::size_t count);

// One element. A floating value loses its fraction on the way to an integer; beyond the integer's
// range it becomes the nearest end and NaN becomes 0, on every machine (C++ leaves that undefined).
template <class T, class S>
T convert_element(S value) {
  if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool> || std::is_integral_v<S>) {
    return static_cast<T>(value);
  } else if constexpr (!std::is_floating_point_v<S>) {
    return convert_element<T>(static_cast<float>(value));
  } else {
    using Limits = std::numeric_limits<T>;
    constexpr S kEnd = static_cast<S>(Limits::max() / 2 + 1) * 2;  // the first that is too large
    if (value >= kEnd) return Limits::max();
    if (value < static_cast<S>(Limits::lowest())) return Limits::lowest();
    return value == value ? static_cast<T>(value) : T{0};
  }
}

}  // namespace lockstep
