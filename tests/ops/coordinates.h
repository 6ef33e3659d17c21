// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::testing {

// Calls f(coordinates) for each element of an array, row major.
template <class F>
void for_each_coordinate(const Shape& shape, F&& f) {
  Ints at(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    std::int64_t left = i;
    for (int axis = shape.rank() - 1; axis >= 0; left /= shape[axis--])
      at[static_cast<std::size_t>(axis)] = left % shape[axis];
    f(at);
  }
}

inline std::int64_t flat(const Shape& shape, const Ints& at) {
  std::int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    index = index * shape[axis] + at[static_cast<std::size_t>(axis)];
  return index;
}

// A dense array that can be read and written by coordinates, whatever its dtype.
class Array {
 public:
  Array(const Shape& shape, DType dtype)
      : shape_(shape), dtype_(dtype), values_(static_cast<std::size_t>(shape.numel()), 0.0) {}
  explicit Array(const Tensor& tensor)
      : shape_(tensor.shape()), dtype_(tensor.dtype()), values_(tensor.to_vector<double>()) {}

  double& operator()(const Ints& at) { return values_[static_cast<std::size_t>(flat(shape_, at))]; }
  double operator()(const Ints& at) const {
    return values_[static_cast<std::size_t>(flat(shape_, at))];
  }
  const Shape& shape() const { return shape_; }

  Tensor tensor() const {
    const Tensor result = Tensor::empty(shape_, dtype_);
    result.assign(Tensor::from(values_, shape_));
    return result;
  }

 private:
  Shape shape_;
  DType dtype_;
  std::vector<double> values_;
};

// The array of `shape` whose element at each place is x's element at source(place).
template <class F>
Tensor from_places(const Tensor& x, const Shape& shape, F&& source) {
  Array values(x);
  Array result(shape, x.dtype());
  for_each_coordinate(shape, [&](const Ints& at) { result(at) = values(source(at)); });
  return result.tensor();
}

// Its transpose: zeros of `shape`, with each element of x added at source(its place).
template <class F>
Tensor added_at_places(const Tensor& x, const Shape& shape, F&& source) {
  Array values(x);
  Array result(shape, x.dtype());
  for_each_coordinate(x.shape(), [&](const Ints& at) { result(source(at)) += values(at); });
  return result.tensor();
}

}  // namespace lockstep::testing
