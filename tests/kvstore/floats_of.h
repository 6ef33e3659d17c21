// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::testing {

inline std::vector<float> floats_of(const Tensor& tensor) { return tensor.to_vector<float>(); }

}  // namespace lockstep::testing
