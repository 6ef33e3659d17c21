// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/op_cases.h"

namespace lockstep::testing {

std::vector<OpCase> unary_cases() { return {}; }

}  // namespace lockstep::testing
