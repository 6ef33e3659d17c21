// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/op.h"

// The reduce family's definitions, split over reduce.cpp and scan.cpp.
namespace lockstep::detail {

const OpDef& cumprod_op();
const OpDef& linear_scan_op();

}  // namespace lockstep::detail
