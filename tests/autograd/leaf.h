// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/autograd/autograd.h"

namespace lockstep::testing {

// A vector of these values that has a gradient.
inline Tensor leaf(const std::vector<double>& values,
                   autograd::GradMode mode = autograd::GradMode::write) {
  const Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  autograd::attach_grad(x, mode);
  return x;
}

}  // namespace lockstep::testing
