// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/conv.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {

Conv::Conv(int axes, std::int64_t channels, const Extents& kernel, ConvLayerOptions options,
           bool transposed)
    : axes_(axes),
      transposed_(transposed),
      channels_(channels),
      name_(fmt::format("conv{}d{}", axes, transposed ? "_transpose" : "")),
      options_(std::move(options)),
      kernel_(kernel.spread(name_, "kernel", axes, 1)),
      window_{options_.stride.spread(name_, "stride", axes, 1),
              options_.padding.spread(name_, "padding", axes, 0),
              options_.dilation.spread(name_, "dilation", axes, 1), options_.groups},
      output_padding_(options_.output_padding.spread(name_, "output_padding", axes, 0)),
      activation_(find_activation(name_.c_str(), options_.activation)) {
  detail::positive(name_.c_str(), "channels", channels);
  detail::positive(name_.c_str(), "groups", options_.groups);
  if (channels % options_.groups != 0)
    throw InvalidArgument("{}: {} channels do not divide into {} groups", name_, channels,
                          options_.groups);
  set_padding_mode();
  weight_ = add_parameter("weight", weight_shape(options_.inputs), {.init = options_.weight_init});
  if (options_.bias) bias_ = add_parameter("bias", {channels}, {.init = options_.bias_init});
}

void Conv::set_padding_mode() {
  const std::string& mode = options_.padding_mode;
  if (mode == "zeros") return;
  if (transposed_ || (mode != "reflect" && mode != "edge" && mode != "circular"))
    throw InvalidArgument("{}: padding_mode is '{}', expected {}", name_, mode,
                          transposed_ ? "zeros" : "zeros, reflect, edge or circular");
  if (options_.padding.are_all(0)) return;
  pad_widths_.assign(4, 0);
  for (std::int64_t& width : window_.padding) {
    pad_widths_.insert(pad_widths_.end(), {width, width});
    width = 0;
  }
}

Shape Conv::weight_shape(std::int64_t inputs) const {
  if (inputs >= 0 && inputs % options_.groups != 0)
    throw InvalidArgument("{}: {} input channels do not divide into {} groups", name_, inputs,
                          options_.groups);
  const std::int64_t group_inputs = inputs < 0 ? -1 : inputs / options_.groups;
  Shape shape =
      transposed_ ? Shape{inputs, channels_ / options_.groups} : Shape{channels_, group_inputs};
  for (const std::int64_t size : kernel_) shape.push_back(size);
  return shape;
}

Tensor Conv::forward(const Tensor& x) {
  if (x.rank() != axes_ + 2)
    throw InvalidArgument("{}: x has shape {}, expected {} axes", name_, x.shape().str(),
                          axes_ + 2);
  weight_.complete(weight_shape(x.shape(1)));
  const Tensor weight = weight_.data();
  const Tensor bias = options_.bias ? bias_.data() : Tensor();
  if (!pad_widths_.empty())
    return activation_(
        lockstep::conv(pad(x, pad_widths_, 0.0, options_.padding_mode), weight, bias, window_));
  if (!transposed_) return activation_(lockstep::conv(x, weight, bias, window_));
  return activation_(lockstep::conv_transpose(x, weight, bias, window_, output_padding_));
}

std::string Conv::description() const {
  std::string text = fmt::format("Conv{}D{}({}, {}", axes_, transposed_ ? "Transpose" : "",
                                 channels_, Extents(kernel_).str());
  const auto add = [&](const char* what, const Extents& sizes, std::int64_t usual) {
    if (!sizes.are_all(usual)) text += fmt::format(", {} {}", what, sizes.str());
  };
  add("stride", window_.stride, 1);
  add("padding", options_.padding.spread(name_, "padding", axes_, 0), 0);
  if (options_.padding_mode != "zeros") text += ", " + options_.padding_mode;
  add("dilation", window_.dilation, 1);
  add("groups", window_.groups, 1);
  if (!options_.activation.empty()) text += ", " + options_.activation;
  return text + ")";
}

std::shared_ptr<Conv> conv1d(std::int64_t channels, const Extents& kernel,
                             ConvLayerOptions options) {
  return std::make_shared<Conv>(1, channels, kernel, std::move(options));
}
std::shared_ptr<Conv> conv2d(std::int64_t channels, const Extents& kernel,
                             ConvLayerOptions options) {
  return std::make_shared<Conv>(2, channels, kernel, std::move(options));
}
std::shared_ptr<Conv> conv3d(std::int64_t channels, const Extents& kernel,
                             ConvLayerOptions options) {
  return std::make_shared<Conv>(3, channels, kernel, std::move(options));
}
std::shared_ptr<Conv> conv1d_transpose(std::int64_t channels, const Extents& kernel,
                                       ConvLayerOptions options) {
  return std::make_shared<Conv>(1, channels, kernel, std::move(options), true);
}
std::shared_ptr<Conv> conv2d_transpose(std::int64_t channels, const Extents& kernel,
                                       ConvLayerOptions options) {
  return std::make_shared<Conv>(2, channels, kernel, std::move(options), true);
}
std::shared_ptr<Conv> conv3d_transpose(std::int64_t channels, const Extents& kernel,
                                       ConvLayerOptions options) {
  return std::make_shared<Conv>(3, channels, kernel, std::move(options), true);
}

}  // namespace lockstep::nn
