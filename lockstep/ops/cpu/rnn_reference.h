// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

// float64, by plain loops.
namespace lockstep::kernels {

void rnn_layer_reference(const KernelCall& call);
void rnn_layer_backward_reference(const KernelCall& call);

}  // namespace lockstep::kernels
