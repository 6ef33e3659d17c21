// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"

namespace lockstep::recipes {

// Where a set has no test samples of its own, every fifth is one.
data::DatasetPtr four_of_five(data::DatasetPtr set);
data::DatasetPtr every_fifth(data::DatasetPtr set);

}  // namespace lockstep::recipes
