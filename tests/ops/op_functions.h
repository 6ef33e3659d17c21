// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep::testing {

// The public C++ function of an op, called with an op's inputs and attributes.
using OpFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&, const Attrs&)>;

// By the op's name. Left out are ops with no function, and those whose function does more than call
// the op (draws a key, swaps axes, chooses another op).
const std::map<std::string, OpFunction>& op_functions();

}  // namespace lockstep::testing
