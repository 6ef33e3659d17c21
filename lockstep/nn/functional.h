// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/norm.h"
#include "lockstep/tensor/tensor.h"

// Ops whose meaning depends on autograd's mode. The ops themselves (lockstep/ops) know no mode.
namespace lockstep::nn {

// In train mode lockstep::dropout, which draws under the RandomScope; in predict mode x itself.
Tensor dropout(const Tensor& x, double p);

// In train mode with the batch's statistics, and `mean` and `var` of the result are
// momentum * running + (1 - momentum) * the batch's, without a gradient: the caller keeps them for
// the next batch. The variance that moves the running one is the unbiased one, n / (n - 1) of the
// batch's own. In predict mode with the running ones, which the result repeats. Throws
// InvalidArgument in train mode when a channel has one value.
BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                           const Tensor& running_mean, const Tensor& running_var,
                           double momentum = 0.9, double epsilon = 1e-5);

}  // namespace lockstep::nn
