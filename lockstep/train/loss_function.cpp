// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/loss_function.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::train {

nn::Classes LossFunction::classes(const Tensor& output, const Tensor& label) const {
  if (!classes_) return {};
  const auto [predicted, expected] = classes_(output, label);
  if (!predicted.defined() || !expected.defined()) return {};
  if (predicted.numel() != expected.numel())
    throw InvalidArgument("accuracy: predicted classes have shape {}, the expected ones {}",
                          predicted.shape().str(), expected.shape().str());
  const Shape& shape = predicted.shape();
  const Tensor shaped =
      expected.shape() == shape ? expected : reshape(expected, Ints(shape.begin(), shape.end()));
  return {cast(predicted, DType::int64), cast(shaped, DType::int64)};
}

}  // namespace lockstep::train
