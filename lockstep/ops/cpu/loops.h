// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "lockstep/ops/kernel.h"
#include "lockstep/tensor/copy.h"

namespace lockstep::kernels {

// The walk of an element-wise kernel: a shape with as few axes as the operands' strides allow.
// Operand 0 is the output.
template <std::size_t N>
struct Walk {
  Shape shape;
  std::array<Strides, N> strides;
};

template <std::size_t N>
Walk<N> make_walk(const std::array<const TensorView*, N>& operands) {
  Walk<N> walk{operands[0]->shape, {}};
  std::array<Strides*, N> pointers;
  for (std::size_t i = 0; i < N; ++i) {
    walk.strides[i] = broadcast_strides(operands[i]->shape, operands[i]->strides, walk.shape);
    pointers[i] = &walk.strides[i];
  }
  merge_axes(walk.shape, pointers);
  return walk;
}

// Calls row(offsets, steps, count) for every run along the last axis; all count elements.
template <std::size_t N, class F>
void for_each_row(const Walk<N>& walk, F&& row) {
  if (walk.shape.numel() == 0) return;
  const int last = walk.shape.rank() - 1;
  std::array<std::int64_t, N> offsets{};
  std::array<std::int64_t, N> steps;
  for (std::size_t k = 0; k < N; ++k) steps[k] = walk.strides[k][last];
  Dims index = Dims::filled(walk.shape.rank(), 0);
  for (;;) {
    row(offsets, steps, walk.shape[last]);
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      for (std::size_t k = 0; k < N; ++k) offsets[k] += walk.strides[k][axis];
      if (++index[axis] < walk.shape[axis]) break;
      for (std::size_t k = 0; k < N; ++k) offsets[k] -= walk.strides[k][axis] * index[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// out[i] = f(x[i])
template <class X, class R, class F>
void map_unary(const KernelCall& call, F f) {
  const X* x = call.inputs[0].as<X>();
  R* out = call.outputs[0].as<R>();
  for_each_row(make_walk<2>({&call.outputs[0], &call.inputs[0]}),
               [&](const auto& offset, const auto& step, std::int64_t count) {
                 const X* px = x + offset[1];
                 R* po = out + offset[0];
                 if (step[1] == 1 && step[0] == 1) {
                   for (std::int64_t i = 0; i < count; ++i) po[i] = f(px[i]);
                   return;
                 }
                 for (std::int64_t i = 0; i < count; ++i) po[i * step[0]] = f(px[i * step[1]]);
               });
}

// One row of a binary op. The cases that occur most get loops that vectorise.
template <class T, class R, class F>
void binary_row(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, R* out,
                std::int64_t count, F f) {
  if (a_step == 1 && b_step == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  } else if (a_step == 1 && b_step == 0) {
    const T value = *b;
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i], value);
  } else if (a_step == 0 && b_step == 1) {
    const T value = *a;
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(value, b[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i * a_step], b[i * b_step]);
  }
}

// out[i] = f(a[i], b[i])
template <class T, class R, class F>
void map_binary(const KernelCall& call, F f) {
  const T* a = call.inputs[0].as<T>();
  const T* b = call.inputs[1].as<T>();
  R* out = call.outputs[0].as<R>();
  for_each_row(make_walk<3>({&call.outputs[0], &call.inputs[0], &call.inputs[1]}),
               [&](const auto& offset, const auto& step, std::int64_t count) {
                 binary_row(a + offset[1], step[1], b + offset[2], step[2], out + offset[0], count,
                            f);
               });
}

}  // namespace lockstep::kernels
