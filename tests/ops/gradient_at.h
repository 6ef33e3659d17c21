// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/ops.h"

namespace lockstep::testing {

inline Tensor doubles(const std::vector<double>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// Of the sum of f's elements.
template <class F>
std::vector<double> gradient_at(const std::vector<double>& values, F&& f) {
  const Tensor x = doubles(values);
  autograd::attach_grad(x);
  {
    const autograd::RecordScope record;
    autograd::backward(sum(f(x)));
  }
  return autograd::gradient(x).to_vector<double>();
}

}  // namespace lockstep::testing
