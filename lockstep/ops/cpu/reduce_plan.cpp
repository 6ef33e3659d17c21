// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/reduce_plan.h"

namespace lockstep::kernels {
namespace {

struct Group {
  std::int64_t size;
  bool reduced;
};

// Outermost first.
std::vector<Group> group_axes(const Shape& shape, const std::vector<int>& axes) {
  std::vector<Group> groups;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!groups.empty() && groups.back().reduced == reduced)
      groups.back().size *= shape[i];
    else
      groups.push_back({shape[i], reduced});
  }
  return groups;
}

}  // namespace

ReducePlan plan_reduction(const Shape& shape, std::span<const std::int64_t> axes) {
  std::vector<Group> groups = group_axes(shape, normalize_axes("reduce", axes, shape.rank()));
  ReducePlan plan;
  for (const Group& group : groups)
    if (group.reduced) plan.count *= group.size;
  if (groups.empty()) return plan;
  plan.inner = groups.back().size;
  plan.inner_reduced = groups.back().reduced;
  groups.pop_back();
  std::int64_t step = plan.inner;
  if (!plan.inner_reduced && !groups.empty()) {
    plan.rows = groups.back().size;
    step *= plan.rows;
    groups.pop_back();
  }
  std::vector<std::int64_t> steps(groups.size());
  for (std::size_t i = groups.size(); i-- > 0; step *= groups[i].size) steps[i] = step;
  for (std::size_t i = 0; i < groups.size(); ++i)
    (groups[i].reduced ? plan.reduced : plan.kept).add(groups[i].size, steps[i]);
  return plan;
}

AxisPlan plan_axis(const Shape& shape, std::int64_t axis) {
  AxisPlan plan;
  if (shape.rank() == 0) return plan;
  const int at = normalize_axis("axis", axis, shape.rank());
  for (int i = 0; i < at; ++i) plan.outer *= shape[i];
  plan.size = shape[at];
  for (int i = at + 1; i < shape.rank(); ++i) plan.inner *= shape[i];
  return plan;
}

}  // namespace lockstep::kernels
