// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers.h"

#include <gtest/gtest.h>

#include "lockstep/ops/random_ops.h"

namespace lockstep {
namespace {

TEST(Layers, AConvolutionalNetCompletesItsShapesFromTheFirstInput) {
  const auto net = nn::sequential(nn::conv2d(4, 3, {.padding = 1, .activation = "relu"}),
                                  nn::max_pool2d(2), nn::batch_norm(), nn::dense(10));
  net->initialize();
  const Tensor y = (*net)(Tensor::full({2, 3, 8, 8}, 0.5));
  EXPECT_EQ(y.shape(), (Shape{2, 10}));
  EXPECT_EQ(net->parameter("0.weight").shape(), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(net->parameter("3.weight").shape(), (Shape{10, 64}));
}

TEST(Layers, ATransformerBlockGivesTheSameCompiled) {
  const RandomScope draws(random_key(3));
  const Tensor x = normal({2, 5, 16});
  const auto net = nn::transformer_encoder_block(16, 4, {.causal = true});
  net->initialize();
  const std::vector<float> eager = (*net)(x).to_vector<float>();
  net->hybridize();
  const std::vector<float> compiled = (*net)(x).to_vector<float>();
  for (std::size_t i = 0; i < eager.size(); ++i) ASSERT_NEAR(eager[i], compiled[i], 1e-5);
}

}  // namespace
}  // namespace lockstep
