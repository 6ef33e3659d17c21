// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/norm.h"
#include "lockstep/ops/norm.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using Where = DnnlOperand::Where;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

const auto kScaleAndShift = normalization_flags::use_scale | normalization_flags::use_shift;

// Where relu let values pass, one bit for each element in the order of x's blocks. It only means
// something together with that order, so it remembers x's layout.
class BlockedMask final : public BlockedLayout {
 public:
  BlockedMask(Layout x, std::size_t bytes) : x_(std::move(x)), bytes_(bytes) {}
  const Layout& x() const { return x_; }
  std::size_t bytes() const override { return bytes_; }
  bool equals(const BlockedLayout& other) const override {
    const auto* mask = dynamic_cast<const BlockedMask*>(&other);
    return mask != nullptr && mask->x_ == x_ && mask->bytes_ == bytes_;
  }
  bool padded() const override { return true; }
  std::string str() const override { return "bits of " + x_.str(); }

 private:
  Layout x_;
  std::size_t bytes_;
};

// The library has fast kernels for two spatial axes and more; a plain x has any number of them.
memory::desc data_desc(const TensorInfo& x, const Layout& layout) {
  if (layout.is_plain()) {
    const std::int64_t size = x.shape.numel() / (x.shape[0] * x.shape[1]);
    return plain_desc({x.shape[0], x.shape[1], size, 1}, memory::data_type::f32);
  }
  const memory::desc desc = desc_of(x, layout);
  memory::dims dims = desc.dims();
  while (dims.size() < 4) dims.push_back(1);
  return desc.reshape(dims);
}

template <class Desc>
bool is_reference(const Desc& desc) {
  return std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
}

struct Problem {
  TensorInfo x;
  float epsilon;
  normalization_flags flags;
  dnnl::prop_kind kind;
};

Forward::primitive_desc forward_desc(const Problem& problem, const Layout& layout) {
  const Forward::desc desc(problem.kind, data_desc(problem.x, layout), problem.epsilon,
                           problem.flags);
  return {desc, user_scratchpad(), dnnl_engine(), true};
}

Backward::primitive_desc backward_desc(const Problem& problem, const Layout& layout) {
  const memory::desc data = data_desc(problem.x, layout);
  const Backward::desc desc(dnnl::prop_kind::backward, data, data, problem.epsilon, problem.flags);
  return {desc, user_scratchpad(), dnnl_engine(), forward_desc(problem, layout), true};
}

// x's layout as offered, or plain where the library has nothing good for it.
Layout settle_layout(const Problem& problem, const Layout& offered) {
  if (offered.is_plain()) return offered;
  const auto desc = forward_desc(problem, offered);
  return desc && !is_reference(desc) ? offered : Layout();
}

normalization_flags flags_of(const BatchNormAttrs& attrs) {
  return attrs.relu ? kScaleAndShift | normalization_flags::fuse_norm_relu : kScaleAndShift;
}

Layout mask_layout(const Layout& x, const memory::desc& workspace) {
  if (x.is_plain()) return {};
  return Layout(std::make_shared<BlockedMask>(x, workspace.get_size()));
}

// In a plain layout the workspace is a byte for each element, as it is declared.
bool mask_fits(const TensorInfo& x, const Layout& layout, const memory::desc& workspace) {
  return !layout.is_plain() || workspace.get_size() <= static_cast<std::size_t>(x.shape.numel());
}

// Where the elements of a channel are, in a layout with at most one block of channels.
struct ChannelPlaces {
  explicit ChannelPlaces(const memory::desc& desc) {
    const dnnl_memory_desc_t& d = desc.data;
    const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
    batch = d.dims[0];
    channels = d.dims[1];
    batch_step = blocking.strides[0];
    block = blocking.inner_nblks == 0 ? 1 : blocking.inner_blks[0];
    block_step = blocking.strides[1];
    for (int i = d.ndims - 1; i >= 2; --i) {
      if (d.dims[i] > 1 && size == 1) step = blocking.strides[i];
      size *= d.dims[i];
    }
  }

  std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t i) const {
    return n * batch_step + c / block * block_step + c % block + i * step;
  }

  std::int64_t batch, channels, size = 1, block;
  std::int64_t batch_step, block_step, step = 0;
};

// The library's batch norm with relu is max(y, 0), which makes 0 of NaN. A NaN has its cause in
// numbers that belong to a whole channel, so a look at those tells which channels have to be
// computed again; as a rule none.
class ReluKeepsNan final : public PreparedKernel {
 public:
  ReluKeepsNan(std::unique_ptr<PreparedKernel> kernel, const memory::desc& data, double epsilon,
               std::size_t mask_bytes)
      : kernel_(std::move(kernel)),
        epsilon_(epsilon),
        places_(data),
        bits_(mask_bytes * sizeof(float) < data.get_size()) {
    name = kernel_->name;
    scratch_bytes = kernel_->scratch_bytes;
    input_layouts = kernel_->input_layouts;
    output_layouts = kernel_->output_layouts;
  }

  void run(const KernelBuffers& buffers) const override {
    kernel_->run(buffers);
    for (std::int64_t c = 0; c < places_.channels; ++c) {
      const Channel channel = channel_of(buffers, c);
      if (!channel.is_finite()) compute_again(buffers, c, channel);
    }
  }

 private:
  struct Channel {
    float mean, variance, scale, shift;
    bool is_finite() const {
      return std::isfinite(mean) && std::isfinite(variance) && std::isfinite(scale) &&
             std::isfinite(shift);
    }
  };

  Channel channel_of(const KernelBuffers& buffers, std::int64_t c) const {
    const auto at = [c](std::byte* floats) { return reinterpret_cast<const float*>(floats)[c]; };
    const float mean = at(buffers.outputs[1]), variance = at(buffers.outputs[2]);
    const double deviation = std::sqrt(static_cast<double>(variance) + epsilon_);
    const auto scale = static_cast<float>(at(buffers.inputs[1]) / deviation);
    return {mean, variance, scale, at(buffers.inputs[2])};
  }

  void compute_again(const KernelBuffers& buffers, std::int64_t c, const Channel& channel) const {
    const auto* x = reinterpret_cast<const float*>(buffers.inputs[0]);
    auto* y = reinterpret_cast<float*>(buffers.outputs[0]);
    for (std::int64_t n = 0; n < places_.batch; ++n)
      for (std::int64_t i = 0; i < places_.size; ++i) {
        const std::int64_t at = places_.offset(n, c, i);
        const float value = (x[at] - channel.mean) * channel.scale + channel.shift;
        y[at] = value <= 0.0f ? 0.0f : value;
        set_passed(buffers.outputs[3], at, !(value <= 0.0f));
      }
  }

  void set_passed(std::byte* mask, std::int64_t at, bool passed) const {
    if (!bits_) {
      mask[at] = std::byte{passed};
      return;
    }
    const auto bit = std::byte{1} << static_cast<int>(at % 8);
    mask[at / 8] = passed ? mask[at / 8] | bit : mask[at / 8] & ~bit;
  }

  std::unique_ptr<PreparedKernel> kernel_;
  double epsilon_;
  ChannelPlaces places_;
  bool bits_;  // of the mask: one for each element, else a byte
};

DnnlOperand input(std::size_t index, const memory::desc& desc) {
  return {Where::input, index, desc};
}

DnnlOperand output(std::size_t index, const memory::desc& desc) {
  return {Where::output, index, desc};
}

memory::desc channel_desc(const TensorInfo& x) {
  return plain_desc({x.shape[1]}, memory::data_type::f32);
}

}  // namespace

std::unique_ptr<PreparedKernel> prepare_batch_norm(const KernelRequest& request,
                                                   std::string& declined) try {
  const OneThread one;
  const auto& attrs = request.attrs.as<BatchNormAttrs>();
  const TensorInfo& x = request.inputs[0];
  if (x.shape.numel() == 0) return declined = "a size is 0", nullptr;
  const Problem problem{x, static_cast<float>(attrs.epsilon), flags_of(attrs),
                        dnnl::prop_kind::forward_training};
  const Layout layout = settle_layout(problem, request.offered[0]);
  const auto desc = forward_desc(problem, layout);
  if (!desc || !mask_fits(x, layout, desc.workspace_desc()))
    return declined = "the library has no implementation", nullptr;
  const memory::desc channel = channel_desc(x);
  std::vector<DnnlArgument> arguments{
      {DNNL_ARG_SRC, input(0, desc.src_desc())}, {DNNL_ARG_SCALE, input(1, channel)},
      {DNNL_ARG_SHIFT, input(2, channel)},       {DNNL_ARG_DST, output(0, desc.dst_desc())},
      {DNNL_ARG_MEAN, output(1, channel)},       {DNNL_ARG_VARIANCE, output(2, channel)}};
  if (attrs.relu) arguments.push_back({DNNL_ARG_WORKSPACE, output(3, desc.workspace_desc())});
  DnnlBuilder builder(request);
  builder.add<Forward>(desc, std::move(arguments));
  auto kernel = builder.finish(std::string("onednn ") + desc.impl_info_str());
  kernel->input_layouts[0] = kernel->output_layouts[0] = layout;
  if (!attrs.relu) return kernel;
  kernel->output_layouts[3] = mask_layout(layout, desc.workspace_desc());
  return std::make_unique<ReluKeepsNan>(std::move(kernel), desc.src_desc(), attrs.epsilon,
                                        desc.workspace_desc().get_size());
} catch (const dnnl::error& error) {
  rethrow(error, "batch_norm");
}

std::unique_ptr<PreparedKernel> prepare_batch_norm_backward(const KernelRequest& request,
                                                            std::string& declined) try {
  const OneThread one;
  const auto& attrs = request.attrs.as<BatchNormAttrs>();
  const TensorInfo& x = request.inputs[1];
  if (x.shape.numel() == 0) return declined = "a size is 0", nullptr;
  const Problem problem{x, static_cast<float>(attrs.epsilon), flags_of(attrs),
                        dnnl::prop_kind::forward_training};
  Layout layout = settle_layout(problem, request.offered[1]);
  if (attrs.relu) {
    const auto* mask = dynamic_cast<const BlockedMask*>(request.offered[5].blocked());
    layout = mask != nullptr ? mask->x() : Layout();
  }
  const auto desc = backward_desc(problem, layout);
  if (!desc || !mask_fits(x, layout, desc.workspace_desc()))
    return declined = "the library has no implementation", nullptr;
  const memory::desc channel = channel_desc(x);
  // The library counts a shift among the inputs here too, and never reads it.
  std::vector<DnnlArgument> arguments{{DNNL_ARG_DIFF_DST, input(0, desc.diff_dst_desc())},
                                      {DNNL_ARG_SRC, input(1, desc.src_desc())},
                                      {DNNL_ARG_SCALE, input(2, channel)},
                                      {DNNL_ARG_SHIFT, input(2, channel)},
                                      {DNNL_ARG_MEAN, input(3, channel)},
                                      {DNNL_ARG_VARIANCE, input(4, channel)},
                                      {DNNL_ARG_DIFF_SRC, output(0, desc.diff_src_desc())},
                                      {DNNL_ARG_DIFF_SCALE, output(1, channel)},
                                      {DNNL_ARG_DIFF_SHIFT, output(2, channel)}};
  if (attrs.relu) arguments.push_back({DNNL_ARG_WORKSPACE, input(5, desc.workspace_desc())});
  DnnlBuilder builder(request);
  builder.add<Backward>(desc, std::move(arguments));
  auto kernel = builder.finish(std::string("onednn ") + desc.impl_info_str());
  kernel->input_layouts[0] = kernel->input_layouts[1] = kernel->output_layouts[0] = layout;
  if (attrs.relu) kernel->input_layouts[5] = mask_layout(layout, desc.workspace_desc());
  return kernel;
} catch (const dnnl::error& error) {
  rethrow(error, "batch_norm_backward");
}

std::unique_ptr<PreparedKernel> prepare_batch_norm_inference(const KernelRequest& request,
                                                             std::string& declined) try {
  const OneThread one;
  const TensorInfo& x = request.inputs[0];
  if (x.shape.numel() == 0) return declined = "a size is 0", nullptr;
  const Problem problem{x, static_cast<float>(request.attrs.as<EpsilonAttrs>().epsilon),
                        kScaleAndShift | normalization_flags::use_global_stats,
                        dnnl::prop_kind::forward_inference};
  const Layout layout = settle_layout(problem, request.offered[0]);
  const auto desc = forward_desc(problem, layout);
  if (!desc) return declined = "the library has no implementation", nullptr;
  const memory::desc channel = channel_desc(x);
  DnnlBuilder builder(request);
  builder.add<Forward>(desc, {{DNNL_ARG_SRC, input(0, desc.src_desc())},
                              {DNNL_ARG_SCALE, input(1, channel)},
                              {DNNL_ARG_SHIFT, input(2, channel)},
                              {DNNL_ARG_MEAN, input(3, channel)},
                              {DNNL_ARG_VARIANCE, input(4, channel)},
                              {DNNL_ARG_DST, output(0, desc.dst_desc())}});
  auto kernel = builder.finish(std::string("onednn ") + desc.impl_info_str());
  kernel->input_layouts[0] = kernel->output_layouts[0] = layout;
  return kernel;
} catch (const dnnl::error& error) {
  rethrow(error, "batch_norm_inference");
}

}  // namespace lockstep::kernels
