// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/kvstore/mesh_links.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train::detail {

// The memory of dense tensors, for the links between stages.
inline kvstore::NeighbourLinks::Parts bytes_of(const std::vector<Tensor>& tensors) {
  kvstore::NeighbourLinks::Parts parts;
  for (const Tensor& tensor : tensors) parts.push_back({tensor.raw(), tensor.info().bytes()});
  return parts;
}

}  // namespace lockstep::train::detail
