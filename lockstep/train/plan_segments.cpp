// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/plan_segments.h"

#include "lockstep/graph/flops.h"
#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/detail/step_executable.h"

namespace lockstep::train {

std::size_t crossing_bytes(const Segments& cut, const std::vector<std::size_t>& values) {
  std::size_t bytes = 0;
  for (const std::size_t value : values) bytes += cut.values[value].info.bytes();
  return bytes;
}

namespace {

// By segment; where no op counts, by their number.
std::vector<double> work_of(const StepGraph& step, std::size_t segments) {
  std::vector<double> flops(segments, 0.0), ops(segments, 0.0);
  for (std::size_t id = 0; id < step.forward_nodes; ++id) {
    const auto segment = static_cast<std::size_t>(step.cells.empty() ? 0 : step.cells[id].segment);
    flops[segment] += count_flops(step.graph, step.graph.nodes()[id]);
    ops[segment] += 1.0;
  }
  double all = 0.0, count = 0.0;
  for (std::size_t s = 0; s < segments; ++s) {
    all += flops[s];
    count += ops[s];
  }
  for (std::size_t s = 0; s < segments; ++s) flops[s] = all > 0.0 ? flops[s] / all : ops[s] / count;
  return flops;
}

}  // namespace

std::vector<PlannedSegment> plan_segments(nn::Block& net, const LossFunction& loss,
                                          const std::vector<TensorInfo>& fields,
                                          const FieldRoles& roles, const Mesh& mesh) {
  std::vector<std::string> cuts = mesh.cuts;
  if (cuts.empty()) cuts = choose_cuts(net, loss, fields, roles, mesh.segments);
  const StepGraph step = trace_step(net, loss, fields, roles, cuts);
  const std::vector<double> work = work_of(step, cuts.size() + 1);
  std::vector<PlannedSegment> planned(cuts.size() + 1);
  const Segments cut = detail::segments_of(step);
  for (std::size_t s = 0; s < planned.size(); ++s) {
    if (s > 0) planned[s].begins_with = step.cuts[s - 1];
    planned[s].work = work[s];
    for (const std::size_t state : cut.segments[s].states)
      planned[s].parameters += step.graph.info(step.graph.inputs()[state]).shape.numel();
    if (s + 1 == planned.size()) continue;
    planned[s].bytes_up = crossing_bytes(cut, cut.going_up(static_cast<std::int32_t>(s)));
    planned[s].bytes_down = crossing_bytes(cut, cut.going_down(static_cast<std::int32_t>(s)));
  }
  return planned;
}

}  // namespace lockstep::train
