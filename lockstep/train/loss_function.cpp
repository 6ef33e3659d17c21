// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/loss_function.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::train {

nn::Classes LossFunction::classes(const Tensor& output, const Tensor& label) const {
  if (!classes_) return {};
  const auto [predicted, expected, counted] = classes_(output, label);
  if (!predicted.defined() || !expected.defined()) return {};
  if (predicted.numel() != expected.numel())
    throw InvalidArgument("accuracy: predicted classes have shape {}, the expected ones {}",
                          predicted.shape().str(), expected.shape().str());
  const Shape& shape = predicted.shape();
  const auto shaped = [&](const Tensor& x) {
    return x.shape() == shape ? x : reshape(x, Ints(shape.begin(), shape.end()));
  };
  return {cast(predicted, DType::int64), cast(shaped(expected), DType::int64),
          counted.defined() ? shaped(counted) : Tensor()};
}

}  // namespace lockstep::train
