// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Stochastic gradient descent with momentum: m' = momentum * m - lr * (scale * g + decay * w);
// w' = w + m'. `rate` is a 0-d tensor, so that a schedule needs no new graph. Returns w', m'.
std::pair<Tensor, Tensor> sgd_momentum_update(const Tensor& weight, const Tensor& grad,
                                              const Tensor& momentum_buffer, const Tensor& rate,
                                              double momentum = 0.9, double decay = 0.0,
                                              double scale = 1.0);

}  // namespace lockstep
