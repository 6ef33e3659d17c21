// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/block.h"

namespace lockstep::train::detail {

// A run's configuration (JSON) with the keys "multipliers" and "frozen": which parts of the net
// learn at another rate, and which do not learn.
std::string with_part_settings(const std::string& configuration, const nn::Block& net);

}  // namespace lockstep::train::detail
