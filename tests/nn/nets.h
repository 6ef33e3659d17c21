// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/ops/random_ops.h"
#include "tests/graph/graphs.h"

namespace lockstep::testing {

inline Tensor drawn(const Shape& shape, std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  return normal(shape);
}

// What the block gives op by op, after checking that compiled it gives the same.
inline std::vector<Tensor> run_both_ways(nn::Block& block, const std::vector<Tensor>& inputs) {
  block.initialize(nn::init::fan_in(), 1);
  const std::vector<Tensor> eager = block(inputs);
  block.hybridize();
  expect_all_close(block(inputs), eager, 1e-5, block.description() + " compiled");
  block.hybridize(false);
  return eager;
}

inline Tensor run_both_ways(nn::Block& block, const Tensor& x) {
  return run_both_ways(block, std::vector<Tensor>{x}).front();
}

}  // namespace lockstep::testing
