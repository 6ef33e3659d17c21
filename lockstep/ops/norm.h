// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct BatchNormResult {
  Tensor y;
  Tensor mean;  // of this batch
  Tensor var;   // of this batch, divided by n
};

// Over all axes but 1, with the batch's statistics in any mode; nn/functional.h has the one that
// honours autograd's. gamma and beta are [C].
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

// Of batch_norm and batch_norm_backward. `relu` is for the compiler: batch_norm then applies relu
// to y and has a fourth output, the workspace (a uint8 for each element of x; in plain layout, 1
// where y passed), and batch_norm_backward takes that as its sixth input and dy as it is after the
// relu.
struct BatchNormAttrs {
  double epsilon = 1e-5;
  bool relu = false;
  template <class F>
  void visit(F&& f) {
    f("epsilon", epsilon, "added to the variance before the root is taken");
    f("relu", relu, "relu follows, and the workspace with it");
  }
};

// Of batch_norm_inference and layer_norm.
struct EpsilonAttrs {
  double epsilon = 1e-5;
  template <class F>
  void visit(F&& f) {
    f("epsilon", epsilon, "added to the variance before the root is taken");
  }
};

}  // namespace lockstep
