// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/kernel.h"

// float64, by plain loops, on dense inputs.
namespace lockstep::kernels {

void attention_reference(const KernelCall& call);
void attention_backward_reference(const KernelCall& call);

}  // namespace lockstep::kernels
