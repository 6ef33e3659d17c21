// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"

namespace lockstep::testing {

// The first field of a sample that is a number.
inline std::int64_t number_at(const data::Dataset& dataset, std::int64_t index) {
  return static_cast<std::int64_t>(dataset.sample(index).front().item());
}

}  // namespace lockstep::testing
