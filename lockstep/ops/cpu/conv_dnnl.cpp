// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/conv_attrs.h"
#include "lockstep/ops/cpu/channel_sums_after.h"
#include "lockstep/ops/cpu/conv.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/relu_after.h"
#include "lockstep/ops/cpu/winograd.h"

namespace lockstep::kernels {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Where = DnnlOperand::Where;

memory::dims join(memory::dims head, const ConvProblem& p, const ConvProblem::Sizes& sizes) {
  head.insert(head.end(), sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(p.spatial));
  return head;
}

// The library's words for a problem: grouped weights have an axis of their own, and dilation counts
// the elements left out.
struct ConvDescs {
  ConvDescs(const ConvProblem& p, memory::data_type type)
      : x(any_desc(join({p.batch, p.in_channels}, p, p.input), type)),
        w(any_desc(weight_dims(p), type)),
        y(any_desc(join({p.batch, p.out_channels}, p, p.output), type)),
        bias(plain_desc({p.out_channels}, type)),
        stride(join({}, p, p.stride)),
        dilation(join({}, p, p.dilation)),
        padding(join({}, p, p.padding)) {
    for (auto& d : dilation) --d;
  }

  static memory::dims weight_dims(const ConvProblem& p) {
    if (p.groups == 1) return join({p.out_channels, p.in_channels}, p, p.kernel);
    return join({p.groups, p.group_out(), p.group_in()}, p, p.kernel);
  }

  memory::desc x, w, y, bias;
  memory::dims stride, dilation, padding;
};

template <class Desc>
bool is_amx(const Desc& desc) {
  return std::string_view(desc.impl_info_str()).find("amx") != std::string_view::npos;
}

// The first implementation that is sound; empty when there is none. Asking for the next one needs
// what the description was made of, so its maker still holds that.
template <class Desc, class IsSound>
Desc first_sound(Desc made, const IsSound& is_sound) {
  while (made && !is_sound(made))
    if (!made.next_impl()) return {};
  return made;
}

using Forward = dnnl::convolution_forward::primitive_desc;

// The library's kernels for bfloat16 multiply as many channels at once as their instructions take,
// and where a group has fewer of them, those of the next pixel or group too, by zeros: what is not
// finite there comes through. `brgconv` on AMX reads and writes out of bounds where it leaves out
// rows (oneDNN 2.6).
bool is_sound(const Forward& desc, const ConvProblem& p, DType dtype) {
  const std::string_view name = desc.impl_info_str();
  if (dtype != DType::bfloat16) return true;
  if (name.starts_with("brgconv:")) return false;
  if (!name.starts_with("jit:") && !name.starts_with("jit_bf16:")) return true;
  if (!is_amx(desc)) return p.group_in() >= 8;
  return p.group_in() >= 32 && (p.groups == 1 || p.group_in() % 32 == 0);
}

dnnl::convolution_forward::desc forward_words(const ConvDescs& d, algorithm how, bool bias) {
  using Desc = dnnl::convolution_forward::desc;
  const auto kind = dnnl::prop_kind::forward_training;
  return bias ? Desc(kind, how, d.x, d.w, d.bias, d.y, d.stride, d.dilation, d.padding, d.padding)
              : Desc(kind, how, d.x, d.w, d.y, d.stride, d.dilation, d.padding, d.padding);
}

// What the passes back follow. Empty when the library has nothing for it.
Forward hint_desc(const ConvDescs& d, algorithm how, bool bias) {
  return Forward(forward_words(d, how, bias), user_scratchpad(), dnnl_engine(), true);
}

Forward forward_desc(const ConvProblem& p, DType dtype, const ConvDescs& d, algorithm how,
                     bool bias) {
  const auto words = forward_words(d, how, bias);
  return first_sound(Forward(words, user_scratchpad(), dnnl_engine(), true),
                     [&](const Forward& made) { return is_sound(made, p, dtype); });
}

using BackwardData = dnnl::convolution_backward_data::primitive_desc;

// Of a volume, AMX's kernel does not write all that lies behind the last window (oneDNN 2.6).
bool is_sound(const BackwardData& desc, const ConvProblem& p) {
  bool reaches_the_end = true;
  for (std::size_t axis = 0; axis < p.spatial; ++axis) {
    const std::int64_t span = p.dilation[axis] * (p.kernel[axis] - 1) + 1;
    reaches_the_end &= (p.input[axis] + 2 * p.padding[axis] - span) % p.stride[axis] == 0;
  }
  return p.spatial < 3 || reaches_the_end || !is_amx(desc);
}

BackwardData backward_data_desc(const ConvProblem& p, const ConvDescs& d, algorithm how) {
  const Forward hint = hint_desc(d, how, false);
  if (!hint) return {};
  const dnnl::convolution_backward_data::desc desc(how, d.x, d.w, d.y, d.stride, d.dilation,
                                                   d.padding, d.padding);
  return first_sound(BackwardData(desc, user_scratchpad(), dnnl_engine(), hint, true),
                     [&](const BackwardData& made) { return is_sound(made, p); });
}

using BackwardWeights = dnnl::convolution_backward_weights::primitive_desc;

// True when the first window that does not begin in the padding lies inside the input, and the
// input is not shorter than the stride.
bool reaches_inside(const ConvProblem& p, std::size_t axis) {
  const std::int64_t stride = p.stride[axis], padding = p.padding[axis];
  const std::int64_t span = p.dilation[axis] * (p.kernel[axis] - 1) + 1;
  const std::int64_t first = (padding + stride - 1) / stride * stride - padding;
  return first + span <= p.input[axis] && stride <= p.input[axis];
}

// The library's generated kernels for the gradient of weights walk along an axis: through windows
// that begin in the padding, then through those inside, then through those that end beyond. How
// much of the kernel meets the input is not computed for each window but carried from one to the
// next, and that is right only where there is a window inside to begin the last part with.
// Elsewhere they add up what is not there: they read and write out of bounds, or take what they
// have not written. For float32 the depth is walked so, in bfloat16 every axis (oneDNN 2.6). With
// AMX the rows of a dilated kernel meet the wrong ones where channels are no multiple of 16.
bool is_sound(const BackwardWeights& desc, const ConvProblem& p, DType dtype) {
  if (!std::string_view(desc.impl_info_str()).starts_with("jit")) return true;
  for (std::size_t axis = 0; axis < p.spatial; ++axis)
    if (p.dilation[axis] > 1 && is_amx(desc)) return false;
  const std::size_t walked = dtype == DType::bfloat16 ? p.spatial : p.spatial == 3 ? 1 : 0;
  for (std::size_t axis = 0; axis < walked; ++axis)
    if (!reaches_inside(p, axis)) return false;
  return true;
}

BackwardWeights backward_weights_desc(const ConvProblem& p, DType dtype, const ConvDescs& d,
                                      algorithm how, bool bias) {
  const Forward hint = hint_desc(d, how, bias);
  if (!hint) return {};
  using Desc = dnnl::convolution_backward_weights::desc;
  const Desc desc =
      bias ? Desc(how, d.x, d.w, d.bias, d.y, d.stride, d.dilation, d.padding, d.padding)
           : Desc(how, d.x, d.w, d.y, d.stride, d.dilation, d.padding, d.padding);
  return first_sound(BackwardWeights(desc, user_scratchpad(), dnnl_engine(), hint, true),
                     [&](const BackwardWeights& made) { return is_sound(made, p, dtype); });
}

// Why the library should not be asked, or an empty string.
std::string reason_to_decline(const ConvProblem& p, DType dtype) {
  if (p.empty()) return "a size is 0";
  if (dtype == DType::bfloat16 && !has_bf16_instructions()) return "no bfloat16 instructions";
  return {};
}

template <class Desc>
bool is_reference(const Desc& desc) {
  return std::string_view(desc.impl_info_str()).starts_with("ref");
}

// The descriptor that `make` gives for Winograd where the rule wants it and the library has it,
// else for the direct algorithm; empty, with the reason, when there is only a reference
// implementation, or only ones that go wrong.
template <class Make>
auto choose_desc(const ConvProblem& p, const KernelRequest& request, WinogradPass pass,
                 std::string& declined, const Make& make) -> decltype(make(algorithm{})) {
  const DType dtype = request.inputs[0].dtype;
  declined = reason_to_decline(p, dtype);
  if (!declined.empty()) return {};
  if (request.allow_winograd && winograd_wins(p, dtype, pass))
    if (auto desc = make(algorithm::convolution_winograd); desc && !is_reference(desc)) return desc;
  auto desc = make(algorithm::convolution_direct);
  if (desc && !is_reference(desc)) return desc;
  declined = "the library has no fast implementation that is right for these sizes";
  return {};
}

template <class Desc>
std::string kernel_name(const Desc& desc) {
  return std::string("onednn ") + desc.impl_info_str();
}

// Adds bias[c] to channel c, in place.
void add_bias(DnnlBuilder& builder, const DnnlOperand& x, const ConvProblem& p) {
  memory::dims dims(p.spatial + 2, 1);
  dims[1] = p.in_channels;
  const memory::desc bias = plain_desc(dims, x.desc.data_type());
  const dnnl::binary::desc desc(algorithm::binary_add, x.desc, bias, x.desc);
  builder.add<dnnl::binary>(
      {desc, user_scratchpad(), dnnl_engine()},
      {{DNNL_ARG_SRC_0, x}, {DNNL_ARG_SRC_1, {Where::input, 2, bias}}, {DNNL_ARG_DST, x}});
}

std::unique_ptr<PreparedKernel> weights_kernel(const KernelRequest& request,
                                               const BackwardWeights& desc, bool with_bias) {
  DnnlBuilder builder(request);
  std::vector<DnnlArgument> arguments{
      {DNNL_ARG_SRC, builder.input(0, desc.src_desc())},
      {DNNL_ARG_DIFF_DST, builder.input(1, desc.diff_dst_desc())},
      {DNNL_ARG_DIFF_WEIGHTS, builder.output(0, desc.diff_weights_desc())}};
  if (with_bias)
    arguments.push_back({DNNL_ARG_DIFF_BIAS, builder.output(1, desc.diff_bias_desc())});
  builder.add<dnnl::convolution_backward_weights>(desc, std::move(arguments));
  return builder.finish(kernel_name(desc));
}

}  // namespace

std::unique_ptr<PreparedKernel> prepare_conv(const KernelRequest& request,
                                             std::string& declined) try {
  const OneThread one;
  const auto& attrs = request.attrs.as<ConvAttrs>();
  const auto [x, w, y] = std::tie(request.inputs[0], request.inputs[1], request.outputs[0]);
  const ConvProblem problem(x.shape, w.shape, y.shape, attrs);
  const ConvDescs descs(problem, *dnnl_type(x.dtype));
  const bool bias = request.inputs.size() == 3;
  const auto desc = choose_desc(problem, request, WinogradPass::forward, declined, [&](auto how) {
    return forward_desc(problem, x.dtype, descs, how, bias);
  });
  if (!desc) return nullptr;
  DnnlBuilder builder(request);
  std::vector<DnnlArgument> arguments{{DNNL_ARG_SRC, builder.input(0, desc.src_desc())},
                                      {DNNL_ARG_WEIGHTS, builder.input(1, desc.weights_desc())},
                                      {DNNL_ARG_DST, builder.output(0, desc.dst_desc())}};
  if (bias) arguments.push_back({DNNL_ARG_BIAS, builder.input(2, desc.bias_desc())});
  builder.add<dnnl::convolution_forward>(desc, std::move(arguments));
  auto kernel = builder.finish(kernel_name(desc));
  return attrs.activation == "relu" ? relu_after(std::move(kernel), y) : std::move(kernel);
} catch (const dnnl::error& error) {
  return decline(error, "conv", declined);
}

std::unique_ptr<PreparedKernel> prepare_conv_backward_data(const KernelRequest& request,
                                                           std::string& declined) try {
  const OneThread one;
  const auto [y, w, x] = std::tie(request.inputs[0], request.inputs[1], request.outputs[0]);
  const ConvProblem problem(x.shape, w.shape, y.shape, request.attrs.as<ConvDataAttrs>());
  const ConvDescs descs(problem, *dnnl_type(x.dtype));
  const auto desc = choose_desc(problem, request, WinogradPass::backward_data, declined,
                                [&](auto how) { return backward_data_desc(problem, descs, how); });
  if (!desc) return nullptr;
  DnnlBuilder builder(request);
  const DnnlOperand dx = builder.output(0, desc.diff_src_desc());
  builder.add<dnnl::convolution_backward_data>(
      desc, {{DNNL_ARG_DIFF_DST, builder.input(0, desc.diff_dst_desc())},
             {DNNL_ARG_WEIGHTS, builder.input(1, desc.weights_desc())},
             {DNNL_ARG_DIFF_SRC, dx}});
  if (request.inputs.size() == 3) add_bias(builder, dx, problem);
  return builder.finish(kernel_name(desc));
} catch (const dnnl::error& error) {
  return decline(error, "conv_backward_data", declined);
}

std::unique_ptr<PreparedKernel> prepare_conv_backward_weights(const KernelRequest& request,
                                                              std::string& declined) try {
  const OneThread one;
  const auto& attrs = request.attrs.as<ConvWeightsAttrs>();
  const auto [x, y, w] = std::tie(request.inputs[0], request.inputs[1], request.outputs[0]);
  const ConvProblem problem(x.shape, w.shape, y.shape, attrs);
  const ConvDescs descs(problem, *dnnl_type(x.dtype));
  const auto choose = [&](bool bias) {
    return choose_desc(problem, request, WinogradPass::backward_weights, declined, [&](auto how) {
      return backward_weights_desc(problem, x.dtype, descs, how, bias);
    });
  };
  bool own_sums = attrs.with_bias && x.dtype == DType::float32;
  auto desc = choose(attrs.with_bias && !own_sums);
  if (desc && own_sums && !can_sum_channels(layout_of(desc.diff_dst_desc()))) {
    own_sums = false;
    desc = choose(true);
  }
  if (!desc) return nullptr;
  auto kernel = weights_kernel(request, desc, attrs.with_bias && !own_sums);
  return own_sums ? channel_sums_after(std::move(kernel), y) : std::move(kernel);
} catch (const dnnl::error& error) {
  return decline(error, "conv_backward_weights", declined);
}

}  // namespace lockstep::kernels
