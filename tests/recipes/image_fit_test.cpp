// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/image_fit.h"

#include <gtest/gtest.h>

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/data/images.h"

namespace lockstep::recipes {
namespace {

// Old runs have learnt from these bits.
Tensor grey_by_ops(const Tensor& image) {
  const Tensor shares = Tensor::from(std::vector<float>{0.299F, 0.587F, 0.114F}, {3});
  const Tensor grey = sum(multiply(cast(image, DType::float32), shares), {2}, true);
  return cast(grey + 0.5, DType::uint8);
}

TEST(FitImage, GreyHasTheBitsOfTheOps) {
  Recipe recipe = find_recipe("mnist-mlp");
  recipe.sample_shape = {1, 256, 1024};
  const Tensor image = testing_images::random_image({256, 1024, 3}, DType::uint8);
  EXPECT_EQ(fit_image(recipe, image, "f").to_vector<int>(), grey_by_ops(image).to_vector<int>());
}

}  // namespace
}  // namespace lockstep::recipes
