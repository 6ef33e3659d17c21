// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ops/kernel.h"
#include "lockstep/ops/rnn_attrs.h"

// float64, by plain loops.
namespace lockstep::kernels {

// Of every sequence, after checking them: int32 or int64, or null, for which all have T steps.
std::vector<std::int64_t> sequence_lengths(const std::byte* lengths, DType dtype,
                                           const RnnSizes& n);

void rnn_layer_reference(const KernelCall& call);
void rnn_layer_backward_reference(const KernelCall& call);

}  // namespace lockstep::kernels
