// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/data/image_folder.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// An image of any size, uint8 [H, W, 1 or 3], in the size and colours that a recipe's net reads,
// still uint8. Throws InvalidArgument that begins with `name` for other channels.
Tensor fit_image(const Recipe& recipe, const Tensor& image, const std::string& name);

// Each image of the set fitted.
data::DatasetPtr fit_images(const Recipe& recipe, data::DatasetPtr set);

// A folder with a folder of PNG and JPEG files for each class. `warn` is told what is left out.
// Throws InvalidArgument when there is one class.
std::shared_ptr<const data::ImageFolder> open_image_folder(
    const std::string& folder, const data::ImageFolderOptions& options,
    const std::function<void(const std::string&)>& warn);

}  // namespace lockstep::recipes
