// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "tests/message.h"
#include "tests/ops/gradient_at.h"

namespace lockstep {
namespace {

using testing::doubles;
using testing::gradient_at;
using testing::message_of;

// y = [x0, x0 x1, x0 x1 x2, ...]
TEST(Scan, CumprodHasAGradientWhereElementsAreZero) {
  const auto product = [](const Tensor& x) { return cumprod(x); };
  EXPECT_EQ(gradient_at({2, 0, 3, 5}, product), (std::vector<double>{1, 38, 0, 0}));
  EXPECT_EQ(gradient_at({0, 0, 3}, product), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(gradient_at({2, 3}, product), (std::vector<double>{4, 2}));
}

TEST(Scan, CumprodOfIntegersIsInt64) {
  const Tensor x = Tensor::from(std::vector<std::int8_t>{100, 100, 2}, {3});
  const Tensor y = cumprod(x);
  EXPECT_EQ(y.dtype(), DType::int64);
  EXPECT_EQ(y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{100, 10000, 20000}));
}

TEST(Scan, TheFirstFactorOfALinearScanDoesNotCount) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(linear_scan(doubles({infinity, 2, 3}), doubles({1, 1, 1})).to_vector<double>(),
            (std::vector<double>{1, 3, 10}));
  EXPECT_EQ(
      linear_scan(doubles({2, 3, infinity}), doubles({1, 1, 1}), -1, true).to_vector<double>(),
      (std::vector<double>{9, 4, 1}));
}

TEST(Scan, OperandsOfALinearScanAreAlike) {
  EXPECT_EQ(message_of([] { linear_scan(Tensor::zeros({2}), Tensor::zeros({3})); }),
            "linear_scan: a is float32[2], b is float32[3], expected the same of both");
}

TEST(Reduce, StddevHasNoSlopeWhereAllElementsAreEqual) {
  const auto deviation = [](const Tensor& x) { return stddev(x); };
  EXPECT_EQ(gradient_at({3, 3, 3}, deviation), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(gradient_at({1, 3}, deviation), (std::vector<double>{-0.5, 0.5}));
  EXPECT_NEAR(stddev(doubles({1, 2, 3, 4}), {}, false, 1).item(), std::sqrt(5.0 / 3.0), 1e-15);
}

TEST(Reduce, AnyAndAllTakeNumbersForTruths) {
  const Tensor x = doubles({0, 0.5, -0.0, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_EQ(any(x).item(), 1);
  EXPECT_EQ(all(x).item(), 0);
  EXPECT_EQ(all(doubles({0.5, 2})).item(), 1);
  EXPECT_EQ(any(Tensor::zeros({0})).item(), 0);
  EXPECT_EQ(all(Tensor::zeros({0})).item(), 1);
  EXPECT_EQ(any(x).dtype(), DType::boolean);
}

}  // namespace
}  // namespace lockstep
