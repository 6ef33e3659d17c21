// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::detail {

// Labels that may be floats, as class numbers: int64 of floats, integers as they are. A float that
// is no whole number (NaN, 1.5) is an InvalidArgument that names label and row, when it is
// computed.
Tensor class_numbers(const Tensor& labels);

}  // namespace lockstep::detail
