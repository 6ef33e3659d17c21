// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/philox.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::testing_images {

// Whole numbers of 0 to 255.
inline Tensor random_image(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::uint8_t>(random_bits({seed}, i) >> 24);
  Tensor image = Tensor::empty(shape, dtype);
  image.assign(Tensor::from(values, shape));
  return image;
}

inline double value_at(const Tensor& image, std::int64_t i, std::int64_t j, std::int64_t k) {
  const std::int64_t at = (i * image.shape(1) + j) * image.shape(2) + k;
  return image.dtype() == DType::uint8 ? image.data<std::uint8_t>()[at] : image.data<float>()[at];
}

}  // namespace lockstep::testing_images
