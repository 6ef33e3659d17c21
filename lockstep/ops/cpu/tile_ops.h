// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lockstep/ops/attrs.h"

namespace lockstep::kernels {

// An element-wise op on a run of `n` float32 values, for any n. `params` are the op's attributes in
// the order of their fields, as numbers. `out` may be one of the inputs. Values do not depend on
// where in a run they stand, so eager and fused results have the same bits.
using TileFn = void (*)(const float* const* inputs, const double* params, float* out,
                        std::size_t n);

// Bit i of `single_inputs` says that input i is one value for the whole run. Comparisons and logic
// give 0 and 1 and take any value that is not 0 for true. nullptr when the op has no such function.
TileFn tile_function(std::string_view op, unsigned single_inputs = 0);

}  // namespace lockstep::kernels
