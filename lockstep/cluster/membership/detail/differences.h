// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cluster::detail {

// Of two configurations that are not the same, in one line: "seed is 1, not 0; learning.momentum is
// missing, not 0.9; and 3 more". A configuration is a JSON object, or text of which lines are
// compared.
std::string differences(const std::string& own, const std::string& others);

}  // namespace lockstep::cluster::detail
