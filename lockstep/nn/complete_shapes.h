// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/graph/trace.h"

namespace lockstep::nn {

// Tells the shapes of parameters that are not known yet by tracing a function that calls blocks, in
// predict mode, on inputs like these.
void complete_shapes(const TensorFunction& function, const std::vector<TensorInfo>& inputs);

}  // namespace lockstep::nn
