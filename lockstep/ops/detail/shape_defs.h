// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/op.h"

// The shape family's definitions, split over shape_ops.cpp (windows), join_ops.cpp (copies) and
// roll.cpp.
namespace lockstep::detail {

const OpDef& concat_op();
const OpDef& split_op();
const OpDef& pad_op();
const OpDef& pad_backward_op();
const OpDef& roll_op();
const OpDef& tile_op();
const OpDef& repeat_op();

}  // namespace lockstep::detail
