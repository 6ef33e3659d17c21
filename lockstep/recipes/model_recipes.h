// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// The library's models of images (nn/models) as recipes, by the models' names: the data says how
// many classes there are and how large the images are.
const std::vector<Recipe>& model_recipes();
std::vector<std::string> model_recipe_names();

// A model's recipe for images of this shape, [C, H, W].
Recipe with_image_shape(Recipe recipe, const Shape& image);

// What the net of a model's recipe reads of a set of images: their own size where all have one that
// is neither too small nor too large for the model, else a square. `size`, where it is not 0, is
// the square's side.
Shape choose_image_shape(const Recipe& recipe, const data::Dataset& set, std::int64_t size);
// Of generated images.
Shape generated_image_shape(const Recipe& recipe, std::int64_t size);

// "3x32x32", as a run's configuration has it. Throws InvalidArgument.
std::string text_of_shape(const Shape& image);
Shape shape_from_text(const std::string& text);

}  // namespace lockstep::recipes
