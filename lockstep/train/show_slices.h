// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/train/slice_plan.h"

namespace lockstep::train {

// A parameter that is cut.
struct PlannedSplit {
  std::string parameter;
  int axis = 0;
  std::vector<std::int64_t> extents;  // of each slice, along the axis
};

// What a shard's slices bring together, wherever they are computed.
struct PlannedTransfer {
  std::string op;     // "slice_sum", "slice_gather", "slice_max"
  std::string layer;  // whose call it was, in the forward pass; "" in the backward pass
  std::size_t bytes = 0;
};

struct PlannedSlices {
  std::vector<PlannedSplit> splits;
  std::vector<PlannedTransfer> transfers;  // in the order of the step
};

// Throws what plan_slices throws.
PlannedSlices show_slices(nn::Block& net, const LossFunction& loss,
                          const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                          const Mesh& mesh);

}  // namespace lockstep::train
