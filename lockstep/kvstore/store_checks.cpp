// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/store_checks.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {

std::span<float> floats(const Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
}

Tensor as_float32(const Tensor& tensor) {
  Tensor result = Tensor::empty(tensor.shape());
  result.assign(tensor);
  return result;
}

void check_type(const char* what, const Key& key, const Tensor& tensor) {
  const DType type = tensor.dtype();
  if (type != DType::float32 && type != DType::float16 && type != DType::bfloat16)
    throw InvalidArgument("{}: key {}: got {}, expected float32, float16 or bfloat16", what,
                          key.str(), tensor.info().str());
}

void check_shape(const char* what, const Key& key, const Tensor& tensor, const Shape& expected) {
  check_type(what, key, tensor);
  if (!(tensor.shape() == expected))
    throw InvalidArgument("{}: key {}: got shape {}, expected {}", what, key.str(),
                          tensor.shape().str(), expected.str());
}

void check_rows(const char* what, const Key& key, const Shape& shape,
                const std::vector<std::int64_t>& ids) {
  if (shape.rank() < 1)
    throw InvalidArgument("{}: key {} has no rows: its shape is []", what, key.str());
  for (const std::int64_t id : ids)
    if (id < 0 || id >= shape[0])
      throw InvalidArgument("{}: key {}: there is no row {}, the value has {}", what, key.str(), id,
                            shape[0]);
}

void check_rule(const optim::OptimizerPtr& rule) {
  if (rule == nullptr) throw InvalidArgument("set_optimizer: no rule, expected one such as sgd()");
  if (rule->options().clip_norm > 0.0)
    throw Unsupported(
        "set_optimizer: clip_norm needs all gradients together, and a push has one; expected 0");
}

std::vector<std::int64_t> sorted_ids(std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Shape rows_shape(const Shape& shape, std::int64_t rows) {
  Shape result = shape;
  result[0] = rows;
  return result;
}

std::size_t row_width(const Shape& shape) {
  std::size_t width = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) width *= static_cast<std::size_t>(shape[axis]);
  return width;
}

}  // namespace lockstep::kvstore
