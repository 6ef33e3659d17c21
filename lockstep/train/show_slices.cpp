// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/show_slices.h"

#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train {
namespace {

// The block that was called last before the node.
std::string layer_at(const StepGraph& step, const std::map<const nn::Block*, std::string>& names,
                     std::size_t node) {
  std::string layer;
  for (const StepGraph::Call& call : step.calls) {
    if (call.node > node) break;
    const auto found = names.find(call.block);
    layer = found == names.end() ? "" : found->second;
  }
  return layer;
}

}  // namespace

PlannedSlices show_slices(nn::Block& net, const LossFunction& loss,
                          const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                          const Mesh& mesh) {
  const SlicePlan plan = plan_slices(net, loss, fields, roles, mesh.slices, mesh.splits);
  const StepGraph step = trace_step(net, loss, fields, roles, {}, plan);
  PlannedSlices shown;
  for (const StepGraph::Parameter& parameter : step.parameters) {
    if (parameter.slice != 0) continue;
    PlannedSplit split{parameter.name, parameter.cut.axis, {}};
    for (std::int64_t k = 0; k < parameter.cut.slices(); ++k)
      split.extents.push_back(parameter.cut.extent(k));
    shown.splits.push_back(std::move(split));
  }
  const auto names = block_names(net);
  for (std::size_t id = 0; id < step.graph.nodes().size(); ++id) {
    const Node& node = step.graph.nodes()[id];
    if (node.op == nullptr || !ends_slices(*node.op)) continue;
    shown.transfers.push_back({std::string(node.op->name),
                               id < step.forward_nodes ? layer_at(step, names, id) : "",
                               node.outputs[0].bytes()});
  }
  return shown;
}

}  // namespace lockstep::train
