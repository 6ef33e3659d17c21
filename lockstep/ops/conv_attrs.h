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
    f("stride", stride, "how far the kernel moves, for each spatial axis or once for all; none: 1");
    f("padding", padding, "zeros at both ends of each spatial axis, or one size for all; none: 0");
    f("dilation", dilation, "the distance of two taps of the kernel, as stride is given; none: 1");
    f("groups", groups, "channels fall into this many groups that do not mix");
  }
};

struct ConvAttrs : ConvWindow {
  std::string activation = "";

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("activation", activation, "what is applied to the result: '' or 'relu'");
  }
};

struct ConvDataAttrs : ConvWindow {
  Ints input_size = {};
  Ints output_padding = {};

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("input_size", input_size,
      "the result's spatial sizes; none: the smallest, plus output_padding");
    f("output_padding", output_padding,
      "what is added to the result's smallest size, below stride; none: 0");
  }
};

struct ConvWeightsAttrs : ConvWindow {
  Ints kernel = {};
  bool with_bias = false;

  template <class F>
  void visit(F&& f) {
    visit_window(f);
    f("kernel", kernel, "the kernel's spatial sizes, or one size for all");
    f("with_bias", with_bias, "give the bias's gradient too");
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
