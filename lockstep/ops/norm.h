// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct BatchNormResult {
  Tensor y;
  Tensor mean;  // of this batch
  Tensor var;   // of this batch, divided by n
};

// Over all axes but 1. gamma and beta are [C].
BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                           double epsilon = 1e-5);
// With statistics from training.
Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                            const Tensor& mean, const Tensor& var, double epsilon = 1e-5);
// Over the last axis; gamma and beta have its size.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int groups,
                  double epsilon = 1e-5);
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     double epsilon = 1e-5);

}  // namespace lockstep
