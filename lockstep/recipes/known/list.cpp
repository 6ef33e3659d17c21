// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// Each in a file of its name, beside this one.
Recipe mnist_mlp();
Recipe mnist_lenet();
Recipe fashion_lenet();
Recipe cifar_cnn();
Recipe cifar_resnet18();
Recipe vit_small();
Recipe text_lstm();
Recipe char_gpt();
Recipe gpt_wide();  // in char_gpt.cpp
Recipe recsys_mf();
Recipe recsys_dlrm();

const std::vector<Recipe>& all_recipes() {
  static const std::vector<Recipe> all{
      mnist_mlp(), mnist_lenet(), fashion_lenet(), cifar_cnn(), cifar_resnet18(), vit_small(),
      text_lstm(), char_gpt(),    gpt_wide(),      recsys_mf(), recsys_dlrm()};
  return all;
}

}  // namespace lockstep::recipes
