// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Matrix product of the last two axes; leading axes broadcast. A 1-d operand is a row (left) or a
// column (right), as NumPy's, and is never transposed.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

// x weight^T + bias. weight is [units, features]; an undefined bias is none. x is flattened to
// [N, features] after its first axis; `flatten` false applies it to the last axis instead.
Tensor dense(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, bool flatten = true);

struct MatmulAttrs {
  bool transpose_a = false;
  bool transpose_b = false;
  template <class F>
  void visit(F&& f) {
    f("transpose_a", transpose_a, "swap the last two axes of a first");
    f("transpose_b", transpose_b, "swap the last two axes of b first");
  }
};

struct DenseAttrs {
  bool flatten = true;
  std::string activation;
  template <class F>
  void visit(F&& f) {
    f("flatten", flatten, "features are all axes of x but the first; false: the last axis alone");
    f("activation", activation, "what is applied to the result: '' or 'relu'");
  }
};

struct DenseBackwardDataAttrs {
  Ints x_shape;
  bool flatten = true;
  template <class F>
  void visit(F&& f) {
    f("x_shape", x_shape, "the sizes of x");
    f("flatten", flatten, "as in dense");
  }
};

struct DenseBackwardWeightsAttrs {
  bool flatten = true;
  bool with_bias = false;
  template <class F>
  void visit(F&& f) {
    f("flatten", flatten, "as in dense");
    f("with_bias", with_bias, "give the bias's gradient too");
  }
};

}  // namespace lockstep
