// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep {

struct OpFamily {
  std::string_view name;
  std::vector<const OpDef*> ops;
};
const std::vector<OpFamily>& op_families();

// Every op there is, in the order of the families. An op is in the product when it is in here.
const std::vector<const OpDef*>& all_ops();
const OpDef* find_op(std::string_view name);
// Throws NotFound.
const OpDef& get_op(std::string_view name);

}  // namespace lockstep
