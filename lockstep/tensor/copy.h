// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

// A strided operand: the first element, and strides in elements.
struct StridedPointer {
  std::byte* data;
  Strides strides;
  DType dtype;
};

// Copies an n-d array of `shape`, converting dtypes. Source strides may be 0 (broadcast).
void copy_strided(const Shape& shape, const StridedPointer& source, const StridedPointer& target);

// A shape with adjacent axes merged wherever every operand's strides allow it: fewer, longer loops.
// Axes of size 1 vanish; at least one axis remains. Rewrites `shape` and each operand's strides.
void merge_axes(Shape& shape, std::span<Strides*> operands);

}  // namespace lockstep
