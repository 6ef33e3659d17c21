// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(Dropout, ZeroesThatShareAndKeepsTheMean) {
  const RandomScope scope(random_key(1));
  const Tensor y = dropout(ones({100000}), 0.2);
  EXPECT_NEAR(mean(y).item(), 1.0, 0.01);
  EXPECT_EQ(max(y).item(), 1.25);
  EXPECT_EQ(min(y).item(), 0.0);
}

TEST(Dropout, TheGradientPassesWhereTheValuePassed) {
  const RandomScope scope(random_key(1));
  const Tensor x = ones({1000});
  autograd::attach_grad(x);
  Tensor y;
  {
    autograd::RecordScope record;
    y = dropout(x, 0.5);
  }
  autograd::backward(y);
  EXPECT_EQ(autograd::gradient(x).to_vector<float>(), y.to_vector<float>());
}

TEST(Dropout, HalfTypesDropTheSameElements) {
  std::vector<std::vector<float>> results;
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const RandomScope scope(random_key(1));
    results.push_back(dropout(ones({1000}, dtype), 0.5).to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Dropout, ADroppedInfinityIsZero) {
  const RandomScope scope(random_key(1));
  const Tensor y = dropout(full({1000}, std::numeric_limits<double>::infinity()), 0.5);
  EXPECT_EQ(min(y).item(), 0.0);
}

TEST(Dropout, WorksOnAnotherDevice) {
  const RandomScope scope(random_key(1));
  EXPECT_EQ(dropout(ones({4}, DType::float32, cpu(1)), 0.5).device(), cpu(1));
}

TEST(Dropout, BadInputIsRefused) {
  const RandomScope scope(random_key(1));
  const Tensor x = ones({2});
  EXPECT_EQ(message_of([&] { dropout(x, 1.0); }), "dropout: p is 1, expected 0 <= p < 1");
  EXPECT_EQ(message_of([&] { dropout(x, -0.1); }), "dropout: p is -0.1, expected 0 <= p < 1");
  EXPECT_EQ(message_of([&] { dropout(ones({2}, DType::int32), 0.5); }),
            "dropout: input is int32[2], expected a floating dtype");
}

}  // namespace
}  // namespace lockstep
