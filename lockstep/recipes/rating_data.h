// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/recipes/recipe_data.h"

namespace lockstep::recipes {

// How ratings are parted into those for training and a tenth that is held out: "pairs", by a hash
// of the user's and the item's id, or "time", the latest.
std::vector<std::string> rating_splits();

// Which are held out. Throws InvalidArgument that begins with `place` when one part is empty, or
// there are no times to split by.
std::vector<bool> held_out_ratings(const data::Ratings& ratings, const std::string& split,
                                   const std::string& place);

// Of a file, of a folder with MovieLens's, or generated; as the recipe's net takes them.
RecipeData rating_data(const Recipe& recipe, const DataSource& source);

}  // namespace lockstep::recipes
