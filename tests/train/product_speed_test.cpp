// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/product_speed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/graph/trace.h"
#include "lockstep/ops/ops.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train {
namespace {

TEST(ProductSpeed, OfAGraphWithoutProductsIsThatOfFloat32) {
  const Graph graph =
      trace([](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {relu(x[0])}; },
            {{{8, 8}, DType::float32, {}}});
  EXPECT_EQ(bfloat16_speedup(graph), 1.0);
}

TEST(ProductSpeed, IsMeasuredForEveryRecipe) {
  for (const recipes::Recipe& recipe : recipes::all_recipes()) {
    const nn::BlockPtr net = recipe.net();
    const StepGraph step = trace_step(*net, recipe.loss(), recipe.fields(4), recipe.roles());
    const double speedup = bfloat16_speedup(step.graph, 0.001);
    EXPECT_TRUE(std::isfinite(speedup) && speedup > 0.0) << recipe.name;
  }
}

}  // namespace
}  // namespace lockstep::train
