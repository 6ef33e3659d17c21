// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::testing {

// docs/ops.md, as the catalogue says it is.
std::string op_page();

}  // namespace lockstep::testing
