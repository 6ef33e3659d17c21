// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/dense_dnnl.h"

#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/relu_after.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;
using Where = DnnlOperand::Where;
using Forward = dnnl::inner_product_forward;
using BackwardData = dnnl::inner_product_backward_data;
using BackwardWeights = dnnl::inner_product_backward_weights;

struct DenseDescs {
  DenseDescs(const DenseSizes& n, DType dtype) : DenseDescs(n, dnnl_type(dtype).value()) {}
  DenseDescs(const DenseSizes& n, memory::data_type type)
      : x(plain_desc({n.rows, n.features}, type)),
        weight(plain_desc({n.units, n.features}, type)),
        packed(any_desc({n.units, n.features}, type)),
        bias(plain_desc({n.units}, type)),
        y(plain_desc({n.rows, n.units}, type)) {}

  memory::desc x, weight, packed, bias, y;
};

// Empty when the library has nothing for it.
Forward::primitive_desc forward_desc(const DenseDescs& d, bool bias) {
  const auto kind = dnnl::prop_kind::forward_training;
  const Forward::desc desc = bias ? Forward::desc(kind, d.x, d.packed, d.bias, d.y)
                                  : Forward::desc(kind, d.x, d.packed, d.y);
  return {desc, user_scratchpad(), dnnl_engine(), true};
}

template <class Desc>
std::string kernel_name(const Desc& desc) {
  return std::string("packed ") + desc.impl_info_str();
}

// Input 1, the weight, as the primitive wants it.
DnnlOperand packed_weight(DnnlBuilder& builder, const DenseDescs& d, const memory::desc& wanted) {
  const DnnlOperand plain{Where::input, 1, d.weight};
  if (wanted == d.weight) return plain;
  const DnnlOperand packed = builder.scratch(wanted);
  builder.reorder(plain, packed);
  return packed;
}

}  // namespace

std::unique_ptr<PreparedKernel> inner_product(const KernelRequest& request, const DenseSizes& n,
                                              bool relu) {
  const DenseDescs descs(n, request.inputs[0].dtype);
  const bool bias = request.inputs.size() == 3;
  const auto desc = forward_desc(descs, bias);
  if (!desc) return nullptr;
  DnnlBuilder builder(request);
  std::vector<DnnlArgument> arguments{
      {DNNL_ARG_SRC, {Where::input, 0, descs.x}},
      {DNNL_ARG_WEIGHTS, packed_weight(builder, descs, desc.weights_desc())},
      {DNNL_ARG_DST, {Where::output, 0, descs.y}}};
  if (bias) arguments.push_back({DNNL_ARG_BIAS, {Where::input, 2, descs.bias}});
  builder.add<Forward>(desc, std::move(arguments));
  auto kernel = builder.finish(kernel_name(desc));
  return relu ? relu_after(std::move(kernel), request.outputs[0]) : std::move(kernel);
}

std::unique_ptr<PreparedKernel> inner_product_backward_data(const KernelRequest& request,
                                                            const DenseSizes& n) {
  const DenseDescs descs(n, request.inputs[0].dtype);
  const auto hint = forward_desc(descs, false);
  if (!hint) return nullptr;
  const BackwardData::primitive_desc desc(BackwardData::desc(descs.x, descs.packed, descs.y),
                                          user_scratchpad(), dnnl_engine(), hint, true);
  if (!desc) return nullptr;
  DnnlBuilder builder(request);
  builder.add<BackwardData>(desc,
                            {{DNNL_ARG_DIFF_DST, {Where::input, 0, descs.y}},
                             {DNNL_ARG_WEIGHTS, packed_weight(builder, descs, desc.weights_desc())},
                             {DNNL_ARG_DIFF_SRC, {Where::output, 0, descs.x}}});
  return builder.finish(kernel_name(desc));
}

std::unique_ptr<PreparedKernel> inner_product_backward_weights(const KernelRequest& request,
                                                               const DenseSizes& n) {
  const DenseDescs descs(n, request.inputs[0].dtype);
  const bool bias = request.outputs.size() == 2;
  const auto hint = forward_desc(descs, bias);
  if (!hint) return nullptr;
  const BackwardWeights::desc what =
      bias ? BackwardWeights::desc(descs.x, descs.packed, descs.bias, descs.y)
           : BackwardWeights::desc(descs.x, descs.packed, descs.y);
  const BackwardWeights::primitive_desc desc(what, user_scratchpad(), dnnl_engine(), hint, true);
  if (!desc) return nullptr;
  DnnlBuilder builder(request);
  const DnnlOperand plain{Where::output, 0, descs.weight};
  const bool direct = desc.diff_weights_desc() == descs.weight;
  const DnnlOperand made = direct ? plain : builder.scratch(desc.diff_weights_desc());
  std::vector<DnnlArgument> arguments{{DNNL_ARG_SRC, {Where::input, 0, descs.x}},
                                      {DNNL_ARG_DIFF_DST, {Where::input, 1, descs.y}},
                                      {DNNL_ARG_DIFF_WEIGHTS, made}};
  if (bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, {Where::output, 1, descs.bias}});
  builder.add<BackwardWeights>(desc, std::move(arguments));
  if (!direct) builder.reorder(made, plain);
  return builder.finish(kernel_name(desc));
}

}  // namespace lockstep::kernels
