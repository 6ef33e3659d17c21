// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/detail/images.h"

#include "lockstep/data/standard_sets.h"
#include "lockstep/nn/models/models.h"

namespace lockstep::recipes {

Learning momentum(double rate, double decay, double warm_up) {
  return {.optimizer = "nag",
          .learning_rate = rate,
          .parameters = {{"momentum", 0.9}, {"wd", decay}},
          .warm_up = warm_up};
}

nn::BlockPtr lenet(double dropout, std::int64_t classes) {
  return nn::models::lenet({.classes = classes, .dropout = dropout});
}

data::Transform digits() { return data::to_tensor({0.1307F}, {0.3081F}); }

data::Transform photos() {
  return data::to_tensor({0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F});
}

data::Transform photos_moved_on_grey() {
  return data::compose({data::random_crop(32, 32, 4, {125.3F, 123.0F, 113.9F}),
                        data::random_flip_left_right(), photos()});
}

data::Transform moved_photos() {
  return data::compose({data::random_crop(32, 32, 4), data::random_flip_left_right(), photos()});
}

ImageFiles idx_files(data::DatasetPtr (*open)(const std::string& folder, bool train,
                                              std::int64_t max_inflated)) {
  return {.begin = "train-images", .names = "train-images-idx3-ubyte and others", .open = open};
}

ImageFiles cifar_files() {
  return {.begin = "data_batch_",
          .names = "data_batch_1.bin and others",
          .open = [](const std::string& folder, bool train, std::int64_t) {
            return data::cifar10(folder, train);
          }};
}

}  // namespace lockstep::recipes
