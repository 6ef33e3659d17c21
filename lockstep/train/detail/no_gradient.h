// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::train::detail {

// What the names of a step's outputs begin with that are zeros in place of a gradient: the loss
// does not depend on the parameter.
inline constexpr const char* kNoGradient = "no_grad:";

}  // namespace lockstep::train::detail
