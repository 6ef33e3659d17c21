// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/conv_attrs.h"

namespace lockstep::kernels {

enum class WinogradPass { forward, backward_data, backward_weights };

// Whether Winograd's F(4x4, 3x3) beats the direct algorithm clearly. Decided by sizes alone, so
// that every member of a job decides alike.
bool winograd_wins(const ConvProblem& problem, DType dtype, WinogradPass pass);

}  // namespace lockstep::kernels
