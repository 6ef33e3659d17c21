// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/op.h"

// A recurrent layer and its gradient as compositions of simpler ops, step by step: for gradients
// of gradients.
namespace lockstep::detail {

std::vector<Tensor> rnn_layer_by_steps(std::span<const Tensor> inputs, const Attrs& attrs);
// Takes nothing from y and the workspace, so that what depends on them is differentiated too.
std::vector<Tensor> rnn_layer_backward_by_steps(std::span<const Tensor> inputs, const Attrs& attrs);

}  // namespace lockstep::detail
