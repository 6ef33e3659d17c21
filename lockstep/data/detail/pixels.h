// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lockstep/tensor/tensor.h"

namespace lockstep::data::detail {

// f(TypeTag<T>{}) with the type of an image's pixels, which check_image has seen.
template <class F>
void visit_pixels(const Tensor& image, F&& f) {
  if (image.dtype() == DType::uint8) {
    f(TypeTag<std::uint8_t>{});
  } else {
    f(TypeTag<float>{});
  }
}

template <class T>
T to_pixel(float value) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
  } else {
    return value;
  }
}

}  // namespace lockstep::data::detail
