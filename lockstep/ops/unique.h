// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

// Functions whose results have a shape that depends on what a tensor contains. They read it, so
// they run eagerly only: while a graph is traced they are Unsupported. No gradient flows through
// them.
namespace lockstep {

// The positions of elements that are not 0, row major: int64 [count, rank].
Tensor nonzero(const Tensor& x);

struct Unique {
  Tensor values;   // sorted, each once; NaNs last, and each for itself
  Tensor inverse;  // int64, of x's shape: where each element of x stands in values
  Tensor counts;   // int64, of values' shape: how often each one occurs
};
Unique unique(const Tensor& x);

}  // namespace lockstep
