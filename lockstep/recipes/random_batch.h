// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// A batch with nothing to learn in it, for benchmarks: the same every time.
data::Fields random_batch(const Recipe& recipe, std::int64_t batch);

}  // namespace lockstep::recipes
