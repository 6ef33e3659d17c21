// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/op.h"

// A recurrent layer and its gradient as compositions of simpler ops, step by step: for gradients
// of gradients.
namespace lockstep::detail {

// x [T, N, ...] where its step is one of the sequence's, else 0.
Tensor until(const Tensor& lengths, const Tensor& x);

std::vector<Tensor> rnn_layer_by_steps(std::span<const Tensor> inputs, const Attrs& attrs);
// Takes nothing from y and the workspace, so that what depends on them is differentiated too.
std::vector<Tensor> rnn_layer_backward_by_steps(std::span<const Tensor> inputs, const Attrs& attrs);

}  // namespace lockstep::detail
