// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

Tensor full(const Shape& shape, double value, DType dtype = DType::float32);
Tensor zeros(const Shape& shape, DType dtype = DType::float32);
Tensor ones(const Shape& shape, DType dtype = DType::float32);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor arange(double start, double stop, double step = 1.0, DType dtype = DType::float32);
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = DType::float32);
Tensor eye(std::int64_t rows, std::int64_t columns = -1, std::int64_t diagonal = 0,
           DType dtype = DType::float32);

}  // namespace lockstep
