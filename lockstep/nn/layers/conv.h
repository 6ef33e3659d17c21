// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/extents.h"
#include "lockstep/ops/conv.h"

namespace lockstep::nn {

struct ConvLayerOptions {
  Extents stride = 1;
  Extents padding = 0;
  Extents dilation = 1;
  std::int64_t groups = 1;
  std::int64_t inputs = -1;  // channels of x; -1: told by the first input
  std::string activation = "";
  bool bias = true;
  Initializer weight_init = {};
  Initializer bias_init = init::zero();
  Extents output_padding = 0;  // of a transposed convolution alone
  // What the padding holds: zeros, reflect, edge or circular (the other end again).
  std::string padding_mode = "zeros";
};

// x [N, C, spatial...], weight [channels, C / groups, kernel...]; 1 to 3 spatial axes. Transposed:
// weight [C, channels / groups, kernel...].
class Conv : public Block {
 public:
  Conv(int axes, std::int64_t channels, const Extents& kernel, ConvLayerOptions options = {},
       bool transposed = false);
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  Shape weight_shape(std::int64_t inputs) const;
  void set_padding_mode();

  int axes_;
  bool transposed_;
  std::int64_t channels_;
  std::string name_;  // "conv2d"
  ConvLayerOptions options_;
  Ints kernel_;
  ConvOptions window_;
  Ints output_padding_;
  Ints pad_widths_;  // of the whole input, where the padding is no zeros
  ActivationFunction activation_;
  Parameter weight_, bias_;
};

std::shared_ptr<Conv> conv1d(std::int64_t channels, const Extents& kernel,
                             ConvLayerOptions options = {});
std::shared_ptr<Conv> conv2d(std::int64_t channels, const Extents& kernel,
                             ConvLayerOptions options = {});
std::shared_ptr<Conv> conv3d(std::int64_t channels, const Extents& kernel,
                             ConvLayerOptions options = {});
std::shared_ptr<Conv> conv1d_transpose(std::int64_t channels, const Extents& kernel,
                                       ConvLayerOptions options = {});
std::shared_ptr<Conv> conv2d_transpose(std::int64_t channels, const Extents& kernel,
                                       ConvLayerOptions options = {});
std::shared_ptr<Conv> conv3d_transpose(std::int64_t channels, const Extents& kernel,
                                       ConvLayerOptions options = {});

}  // namespace lockstep::nn
