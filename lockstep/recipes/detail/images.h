// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// What recipes for images share.

// Nesterov's momentum, then down to nothing along a cosine.
Learning momentum(double rate, double decay, double warm_up);

nn::BlockPtr lenet(double dropout, std::int64_t classes);

// Pixels to floats, by mean and deviation of the training pixels.
data::Transform digits();
data::Transform photos();
data::Transform moved_photos();
// The same with the photos' mean around them: a net that adds up all of a photo's patches takes
// black borders, which no test photo has, for a darker photo.
data::Transform photos_moved_on_grey();

// The files of MNIST, and of sets in its form.
ImageFiles idx_files(data::DatasetPtr (*open)(const std::string& folder, bool train,
                                              std::int64_t max_inflated));
ImageFiles cifar_files();

}  // namespace lockstep::recipes
