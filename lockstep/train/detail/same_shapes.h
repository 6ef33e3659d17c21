// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/kvstore/group.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train::detail {

// Stands for a batch's shape in a vote; never Vote::kShapesDiffer.
std::uint64_t number_of_shape(const std::vector<TensorInfo>& fields);

// Throws InvalidArgument, with the same words on each worker, unless all have batches like these.
// Every worker calls it.
void check_same_shapes(kvstore::Group& group, const std::vector<TensorInfo>& fields);

}  // namespace lockstep::train::detail
