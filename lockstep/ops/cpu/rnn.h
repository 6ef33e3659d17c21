// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> rnn_layer_kernels();
std::span<const KernelCandidate> rnn_layer_backward_kernels();

}  // namespace lockstep::kernels
