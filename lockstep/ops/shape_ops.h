// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// reshape, transpose, expand, squeeze, expand_dims, slice and flip give windows on x's memory
// where strides allow it.

// One size may be -1: what is left.
Tensor reshape(const Tensor& x, const Ints& shape);
Tensor flatten(const Tensor& x, int start_axis = 1);
// No axes: reversed.
Tensor transpose(const Tensor& x, const Ints& axes = {});
Tensor swap_axes(const Tensor& x, int a, int b);
Tensor expand(const Tensor& x, const Shape& shape);
// No axes: every axis of size 1.
Tensor squeeze(const Tensor& x, const Ints& axes = {});
Tensor expand_dims(const Tensor& x, int axis);
// x[begin:end:step] on every axis named, as Python reads it: negative positions count from the end,
// ends are clamped, steps may be negative. Shorter lists leave the remaining axes whole.
Tensor slice(const Tensor& x, const Ints& begin, const Ints& end, const Ints& step = {});
Tensor slice_axis(const Tensor& x, int axis, std::int64_t begin, std::int64_t end);
Tensor flip(const Tensor& x, const Ints& axes);
// Moves elements by `shifts` places along `axes`, those that leave come back in at the other end.
// No axes: along all of them as one, in row-major order.
Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes = {});
// One tensor for each of these vectors, all with one axis for each: the coordinates of a grid.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);
Tensor concat(const std::vector<Tensor>& parts, int axis = 0);
Tensor stack(const std::vector<Tensor>& parts, int axis = 0);
std::vector<Tensor> split(const Tensor& x, int parts, int axis = 0);
std::vector<Tensor> split_sizes(const Tensor& x, const Ints& sizes, int axis = 0);
// `widths` is before, after for each axis. Modes: constant, edge, reflect, circular.
Tensor pad(const Tensor& x, const Ints& widths, double value = 0.0,
           const std::string& mode = "constant");
Tensor tile(const Tensor& x, const Ints& repeats);
Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<int> axis = std::nullopt);
// The identity, with no gradient.
Tensor stop_gradient(const Tensor& x);

}  // namespace lockstep
