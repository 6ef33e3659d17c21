// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Lists may be short, as in PoolOptions.
struct PoolWindow {
  Ints kernel = {};
  Ints stride = {};
  Ints padding = {};
  bool ceil_mode = false;
  bool count_include_pad = true;
  Ints dilation = {};

  template <class F>
  void visit_window(F&& f) {
    f("kernel", kernel, "the window's sizes, for each spatial axis or once for all");
    f("stride", stride, "how far the window moves; none: its own size");
    f("padding", padding, "padding at both ends of each spatial axis; none: 0");
    f("ceil_mode", ceil_mode, "a last window that reaches beyond the end counts too");
    f("count_include_pad", count_include_pad, "an average counts the padding it covers");
    f("dilation", dilation, "the distance of a window's elements, of max pools alone; none: 1");
  }
};

struct PoolAttrs : PoolWindow {
  template <class F>
  void visit(F&& f) {
    visit_window(f);
  }
};

struct PoolBackwardAttrs : PoolWindow {
  Ints input_size = {};

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("input_size", input_size, "the spatial sizes of the pool's input");
  }
};

struct AdaptivePoolAttrs {
  Ints output_size = {};

  template <class F>
  void visit(F&& f) {
    f("output_size", output_size, "the result's spatial sizes, or one size for all");
  }
};

struct AdaptivePoolBackwardAttrs {
  Ints input_size = {};

  template <class F>
  void visit(F&& f) {
    f("input_size", input_size, "the spatial sizes of the pool's input");
  }
};

// What output position i covers along one axis: of [first, last) of the input every dilation-th, as
// a part of a window that begins at `start` (which may be in the padding) and counts for `divisor`
// in an average.
struct AxisWindow {
  std::int64_t first, last, start, divisor;
};

// A pool's sizes in three spatial axes, the missing ones first and of size 1. Checked before.
struct PoolProblem {
  using Sizes = std::array<std::int64_t, 3>;
  // `x` is the larger side; backward kernels pass their output.
  PoolProblem(const Shape& x, const Shape& y, const PoolWindow& window);
  // Adaptive: as even as windows can be.
  PoolProblem(const Shape& x, const Shape& y);

  std::int64_t planes;
  Sizes input{1, 1, 1}, output{1, 1, 1}, kernel{1, 1, 1}, dilation{1, 1, 1};
  std::array<std::vector<AxisWindow>, 3> windows;
};

}  // namespace lockstep
