// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/train/mesh.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train {

// What a segment of a net has to do and to send, before anything is computed.
struct PlannedSegment {
  std::string begins_with;      // a block; empty: the input
  double work = 0.0;            // its part of the forward pass's floating-point operations
  std::int64_t parameters = 0;  // numbers that it keeps
  std::size_t bytes_up = 0;     // of a shard, to the segment above
  std::size_t bytes_down = 0;   // and from there
};

// Of these crossing values.
std::size_t crossing_bytes(const Segments& cut, const std::vector<std::size_t>& values);

// Throws what trace_step and choose_cuts throw.
std::vector<PlannedSegment> plan_segments(nn::Block& net, const LossFunction& loss,
                                          const std::vector<TensorInfo>& fields,
                                          const FieldRoles& roles, const Mesh& mesh);

}  // namespace lockstep::train
