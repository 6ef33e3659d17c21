// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/train/loss_function.h"

namespace lockstep::train::detail {

// A run's configuration (JSON) with the keys "multipliers" and "frozen": which parts of the net
// and of the loss learn at another rate, and which do not learn.
std::string with_part_settings(const std::string& configuration, const nn::Block& net,
                               const LossFunction& loss);

}  // namespace lockstep::train::detail
