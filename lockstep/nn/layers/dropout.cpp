// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/dropout.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"

namespace lockstep::nn {

Dropout::Dropout(double p, Ints axes)
    : p_(detail::probability("dropout", "p", p)), axes_(std::move(axes)) {}

Tensor Dropout::forward(const Tensor& x) {
  if (p_ == 0.0 || !autograd::is_training()) return x;
  if (axes_.empty()) return nn::dropout(x, p_);
  Shape shape = x.shape();
  for (const int axis : normalize_axes("dropout", axes_, x.rank())) shape[axis] = 1;
  return multiply(x, nn::dropout(ones(shape, x.dtype(), x.device()), p_));
}

std::string Dropout::description() const { return fmt::format("Dropout({})", p_); }

std::shared_ptr<Dropout> dropout(double p, Ints axes) {
  return std::make_shared<Dropout>(p, std::move(axes));
}

}  // namespace lockstep::nn
