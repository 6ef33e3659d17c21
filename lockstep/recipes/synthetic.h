// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// Generated samples of a recipe's own shape, the same on every machine: images around one pattern a
// class, texts that prefer their class's words, characters that mostly follow a rule. There is
// something to learn in them, and nothing to read.
data::DatasetPtr synthetic_data(const Recipe& recipe, bool train);

}  // namespace lockstep::recipes
