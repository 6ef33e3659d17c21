// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// How a kernel slides over its input. Lists may be short, as in ConvOptions.
struct ConvWindow {
  Ints stride = {};
  Ints padding = {};
  Ints dilation = {};
  std::int64_t groups = 1;

  template <class F>
  void visit_window(F&& f) {
    f("stride", stride);
    f("padding", padding);
    f("dilation", dilation);
    f("groups", groups);
  }
};

struct ConvAttrs : ConvWindow {
  std::string activation = "";  // "relu" where the compiler fused it

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("activation", activation);
  }
};

struct ConvDataAttrs : ConvWindow {
  Ints input_size = {};  // spatial; empty: the smallest that fits, plus output_padding
  Ints output_padding = {};

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("input_size", input_size);
    f("output_padding", output_padding);
  }
};

struct ConvWeightsAttrs : ConvWindow {
  Ints kernel = {};
  bool with_bias = false;

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("kernel", kernel);
    f("with_bias", with_bias);
  }
};

// A convolution's sizes, whichever of its three tensors is the unknown one. Checked before: shapes
// and window fit. Entry i of each array is spatial axis i.
struct ConvProblem {
  static constexpr std::size_t kMaxSpatial = 3;
  using Sizes = std::array<std::int64_t, kMaxSpatial>;

  ConvProblem(const Shape& x, const Shape& weight, const Shape& y, const ConvWindow& window);

  std::size_t spatial;
  std::int64_t batch, groups, in_channels, out_channels;
  Sizes input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1};
  Sizes stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  std::int64_t group_in() const { return in_channels / groups; }
  std::int64_t group_out() const { return out_channels / groups; }
  bool empty() const { return batch == 0 || in_channels == 0 || out_channels == 0; }
};

}  // namespace lockstep
