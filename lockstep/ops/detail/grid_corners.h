// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::detail {

// grid_sample and its gradients as gathers and scatters of the elements around each place: what
// gradients of gradients are made of.
std::vector<Tensor> grid_sample_by_corners(std::span<const Tensor> inputs, const Attrs& attrs);
std::vector<Tensor> grid_sample_backward_by_corners(std::span<const Tensor> inputs,
                                                    const Attrs& attrs);

}  // namespace lockstep::detail
