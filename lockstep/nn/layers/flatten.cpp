// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/flatten.h"

#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {

Tensor Flatten::forward(const Tensor& x) { return lockstep::flatten(x); }

std::shared_ptr<Flatten> flatten() { return std::make_shared<Flatten>(); }

}  // namespace lockstep::nn
