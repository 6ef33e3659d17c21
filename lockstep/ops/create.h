// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = {});
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = {});
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = {});
// On x's device.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
// start, start + step, ... below stop (above it where step is negative).
Tensor arange(double start, double stop, double step = 1.0, DType dtype = DType::float32,
              Device device = {});
// `count` values at equal distances, both ends included.
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = DType::float32,
                Device device = {});
// Ones on a diagonal (0 the main one, positive above it); columns -1: as many as rows.
Tensor eye(std::int64_t rows, std::int64_t columns = -1, std::int64_t diagonal = 0,
           DType dtype = DType::float32, Device device = {});

}  // namespace lockstep
