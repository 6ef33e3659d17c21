// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/pool.h"
#include "lockstep/ops/pool_attrs.h"
#include "lockstep/ops/spatial.h"

namespace lockstep::kernels {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Forward = dnnl::pooling_forward::primitive_desc;
using Backward = dnnl::pooling_backward::primitive_desc;

// The library's words for a pool. The padding behind is what the output's size needs.
struct PoolSizes {
  PoolSizes(const Shape& x, const Shape& y, const PoolWindow& window) {
    const std::size_t spatial = static_cast<std::size_t>(x.rank()) - 2;
    kernel = spatial_list(window.kernel, spatial, 1);
    stride = window.stride.empty() ? kernel : spatial_list(window.stride, spatial, 1);
    before = spatial_list(window.padding, spatial, 0);
    for (const std::int64_t step : window.dilation) dilated = dilated || step != 1;
    for (std::size_t i = 0; i < spatial; ++i) {
      const auto axis = static_cast<int>(i) + 2;
      const std::int64_t reach = (y[axis] - 1) * stride[i] + kernel[i] - x[axis] - before[i];
      after.push_back(std::max<std::int64_t>(reach, 0));
      if (reach > before[i]) past_padding = true;
      if (stride[i] < kernel[i]) overlapping = true;
    }
    input = dnnl_dims(x);
    output = dnnl_dims(y);
  }

  memory::dims input, output, kernel, stride, before, after;
  bool past_padding = false;  // a window reaches beyond the padding that was asked for
  bool dilated = false;
  bool overlapping = false;
};

algorithm average_of(const PoolWindow& window) {
  return window.count_include_pad ? algorithm::pooling_avg_include_padding
                                  : algorithm::pooling_avg_exclude_padding;
}

Forward forward_desc(const PoolSizes& s, algorithm how, dnnl::prop_kind kind,
                     const memory::desc& x) {
  const dnnl::pooling_forward::desc desc(kind, how, x, any_desc(s.output, x.data_type()), s.stride,
                                         s.kernel, s.before, s.after);
  return Forward(desc, user_scratchpad(), dnnl_engine(), true);
}

template <class Desc>
bool usable(const Desc& desc) {
  return desc && !std::string_view(desc.impl_info_str()).starts_with("ref");
}

// Why the library should not be asked, or an empty string.
std::string reason_to_decline(const TensorInfo& info, const PoolSizes& sizes, algorithm how) {
  if (info.shape.numel() == 0) return "a size is 0";
  if (sizes.dilated) return "the window is dilated";
  if (how == algorithm::pooling_avg_include_padding && sizes.past_padding)
    return "windows reach past the padding";
  return {};
}

// With the layout that `x` has, else with the plain one; empty when only a reference is left.
Forward choose_forward(const PoolSizes& sizes, algorithm how, const memory::desc& x,
                       std::string& declined) {
  const auto kind = dnnl::prop_kind::forward_inference;  // averages keep nothing for later
  if (auto desc = forward_desc(sizes, how, kind, x); usable(desc)) return desc;
  if (auto desc = forward_desc(sizes, how, kind, plain_desc(sizes.input, x.data_type()));
      usable(desc))
    return desc;
  declined = "the library has no fast implementation";
  return {};
}

Backward backward_desc(const PoolSizes& s, algorithm how, const memory::desc& x,
                       const Forward& hint) {
  const dnnl::pooling_backward::desc desc(how, x, hint.dst_desc(), s.stride, s.kernel, s.before,
                                          s.after);
  return Backward(desc, user_scratchpad(), dnnl_engine(), hint, true);
}

// Both passes in one layout: the offered one, else the plain one.
struct Passes {
  Forward forward;
  Backward backward;
};
Passes choose_backward(const PoolSizes& sizes, algorithm how, const memory::desc& offered,
                       memory::data_type type, std::string& declined) {
  for (const memory::desc& x :
       {desc_like(offered, sizes.input, type), plain_desc(sizes.input, type)}) {
    Passes passes;
    passes.forward = forward_desc(sizes, how, dnnl::prop_kind::forward_training, x);
    if (!passes.forward) continue;
    passes.backward = backward_desc(sizes, how, x, passes.forward);
    if (usable(passes.backward)) return passes;
  }
  declined = "the library has no fast implementation";
  return {};
}

template <class Desc>
std::string kernel_name(const Desc& desc) {
  return std::string("onednn ") + desc.impl_info_str();
}

// `leader` is the input whose layout the others follow: the workspace where there is one, since
// only the forward pass can make it.
std::unique_ptr<PreparedKernel> prepare_backward(const KernelRequest& request, algorithm how,
                                                 std::size_t leader, std::string& declined) {
  const OneThread one;
  const TensorInfo &y = request.inputs[0], &x = request.outputs[0];
  const PoolSizes sizes(x.shape, y.shape, request.attrs.as<PoolBackwardAttrs>());
  declined = reason_to_decline(x, sizes, how);
  if (declined.empty() && sizes.overlapping && x.dtype != DType::float32)
    declined = "overlapping windows would be added up in halves";
  if (!declined.empty()) return nullptr;
  const memory::desc offered = desc_of(request.inputs[leader], request.offered[leader]);
  const auto [forward, backward] =
      choose_backward(sizes, how, offered, *dnnl_type(x.dtype), declined);
  if (!backward) return nullptr;
  DnnlBuilder builder(request);
  std::vector<DnnlArgument> arguments{
      {DNNL_ARG_DIFF_DST, builder.input(0, backward.diff_dst_desc())},
      {DNNL_ARG_DIFF_SRC, builder.output(0, backward.diff_src_desc())}};
  if (leader == 1)
    arguments.push_back({DNNL_ARG_WORKSPACE, builder.input(1, forward.workspace_desc())});
  builder.add<dnnl::pooling_backward>(backward, std::move(arguments));
  return builder.finish(kernel_name(backward));
}

}  // namespace

std::unique_ptr<PreparedKernel> prepare_avg_pool(const KernelRequest& request,
                                                 std::string& declined) try {
  const OneThread one;
  const TensorInfo &x = request.inputs[0], &y = request.outputs[0];
  const auto& attrs = request.attrs.as<PoolAttrs>();
  const PoolSizes sizes(x.shape, y.shape, attrs);
  declined = reason_to_decline(x, sizes, average_of(attrs));
  if (!declined.empty()) return nullptr;
  const Forward desc =
      choose_forward(sizes, average_of(attrs), desc_of(x, request.offered[0]), declined);
  if (!desc) return nullptr;
  DnnlBuilder builder(request);
  builder.add<dnnl::pooling_forward>(desc, {{DNNL_ARG_SRC, builder.input(0, desc.src_desc())},
                                            {DNNL_ARG_DST, builder.output(0, desc.dst_desc())}});
  return builder.finish(kernel_name(desc));
} catch (const dnnl::error& error) {
  return decline(error, "avg_pool", declined);
}

std::unique_ptr<PreparedKernel> prepare_max_pool_backward(const KernelRequest& request,
                                                          std::string& declined) try {
  return prepare_backward(request, algorithm::pooling_max, 1, declined);
} catch (const dnnl::error& error) {
  return decline(error, "max_pool_backward", declined);
}

std::unique_ptr<PreparedKernel> prepare_avg_pool_backward(const KernelRequest& request,
                                                          std::string& declined) try {
  return prepare_backward(request, average_of(request.attrs.as<PoolBackwardAttrs>()), 0, declined);
} catch (const dnnl::error& error) {
  return decline(error, "avg_pool_backward", declined);
}

}  // namespace lockstep::kernels
