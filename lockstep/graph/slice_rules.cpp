// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/slice_rules.h"

#include <map>

namespace lockstep {
namespace {

using Rule = SliceOutputs (*)(const SliceCall& call);

Rule rule_of(const OpDef& op) {
  static const std::map<std::string_view, Rule> rules{
      {"reshape", slice_rules::reshape},
      {"transpose", slice_rules::transpose},
      {"squeeze", slice_rules::squeeze},
      {"expand_dims", slice_rules::expand_dims},
      {"slice", slice_rules::slice},
      {"stop_gradient", slice_rules::elementwise},
      {"softmax", slice_rules::softmax},
      {"log_softmax", slice_rules::softmax},
      {"sum", slice_rules::reduce},
      {"mean", slice_rules::reduce},
      {"max", slice_rules::reduce},
      {"min", slice_rules::reduce},
      {"dropout", slice_rules::dropout},
      {"max_pool", slice_rules::pool},
      {"avg_pool", slice_rules::pool},
      {"adaptive_avg_pool", slice_rules::pool},
      {"adaptive_max_pool", slice_rules::pool},
      {"dense", slice_rules::dense},
      {"conv", slice_rules::conv},
      {"batch_norm", slice_rules::batch_norm},
      {"attention", slice_rules::attention},
      {"matmul", slice_rules::matmul},
      {"embedding", slice_rules::embedding},
      {"softmax_cross_entropy", slice_rules::cross_entropy},
      {"argmax", slice_rules::argmax}};
  const auto found = rules.find(op.name);
  if (found != rules.end()) return found->second;
  return op.kind == OpKind::elementwise ? slice_rules::elementwise : nullptr;
}

}  // namespace

SliceOutputs run_by_slices(const SliceCall& call) {
  const Rule rule = rule_of(call.op);
  return rule == nullptr ? std::nullopt : rule(call);
}

std::vector<Tensor> apply_to_parts(const SliceCall& call, const SliceInputs& inputs,
                                   const std::vector<SliceCut>& cuts,
                                   const std::vector<Attrs>& attrs) {
  std::vector<std::vector<Tensor>> parts(call.outputs.size());
  for (std::size_t k = 0; k < static_cast<std::size_t>(call.tracer.slices()); ++k) {
    std::vector<Tensor> own;
    for (const std::vector<Tensor>& input : inputs) own.push_back(input[k]);
    const std::vector<Tensor> made = apply(call.op, own, attrs.empty() ? call.attrs : attrs[k]);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].push_back(made[i]);
  }
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < parts.size(); ++i)
    outputs.push_back(call.tracer.cut(call.outputs[i], cuts[i], std::move(parts[i])));
  return outputs;
}

std::vector<Tensor> broadcast_parts(SliceTracer& tracer, const Tensor& x, SliceCut cut, int rank) {
  cut.axis -= rank - x.rank();
  if (cut.axis < 0 || x.shape(cut.axis) != cut.extent()) return tracer.spread(x);
  return tracer.parts_by(x, cut);
}

}  // namespace lockstep
