// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/tensor/shape.h"

// Sizes that come from attributes may be anything; arithmetic on them must not overflow.
namespace lockstep::detail {

inline std::int64_t checked_sum(const char* op, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw InvalidArgument("{}: {} and {} are too many elements", op, a, b);
  return sum;
}

inline std::int64_t checked_product(const char* op, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw InvalidArgument("{}: {} times {} are too many elements", op, a, b);
  return product;
}

// `shape` itself, if no size is negative and its elements, each of `item` bytes, can be counted.
inline const Shape& checked_shape(const char* op, const Shape& shape, std::size_t item = 1) {
  auto count = static_cast<std::int64_t>(item);
  for (std::int64_t d : shape) {
    if (d < 0) throw InvalidArgument("{}: shape {} has a negative size", op, shape.str());
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(d, 1), &count))
      throw InvalidArgument("{}: shape {} has too many elements", op, shape.str());
  }
  return shape;
}

}  // namespace lockstep::detail
