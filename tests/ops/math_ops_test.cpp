// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/math_ops.h"

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

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(MathOps, ErfinvIsTheInverseOfErfToTheLastDigits) {
  for (double y : {1e-300, 1e-9, 0.1, 0.4, 0.477, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 5.8})
    for (double sign : {1.0, -1.0}) {
      const double x = std::erf(sign * y);
      const double got = erfinv(doubles({x})).item();
      // One rounding of erf(y) moves its inverse by this much.
      const double slope = std::exp(y * y) * 0.8862269254527580;
      const double bound = 4e-16 * std::max(y, 1e-300) + slope * 2.3e-16 * std::fabs(x);
      EXPECT_NEAR(got, sign * y, bound) << y;
    }
}

TEST(MathOps, ErfinvIsInfiniteAtTheEndsAndNanBeyond) {
  const auto y = erfinv(doubles({1, -1, 1.5, -2, kNan, 0})).to_vector<double>();
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_EQ(y[1], -kInfinity);
  for (std::size_t i : {2, 3, 4}) EXPECT_TRUE(std::isnan(y[i])) << i;
  EXPECT_EQ(y[5], 0.0);
}

TEST(MathOps, LogaddexpTakesInfinitiesAndSharesTheirGradient) {
  const Tensor a = doubles({-kInfinity, kInfinity, -kInfinity, 1000, 0});
  const Tensor b = doubles({-kInfinity, kInfinity, 3, 1000, kInfinity});
  EXPECT_EQ(logaddexp(a, b).to_vector<double>(),
            (std::vector<double>{-kInfinity, kInfinity, 3, 1000 + std::log(2.0), kInfinity}));
  EXPECT_EQ(gradient_at({-kInfinity, kInfinity, -kInfinity, 1000, 0},
                        [&](const Tensor& x) { return logaddexp(x, b); }),
            (std::vector<double>{0.5, 0.5, 0, 0.5, 0}));
  EXPECT_TRUE(std::isnan(logaddexp(doubles({kNan}), doubles({1})).item()));
}

TEST(MathOps, HypotDoesNotOverflowAndHasNoSlopeAtTheOrigin) {
  EXPECT_DOUBLE_EQ(hypot(doubles({3e200}), doubles({4e200})).item(), 5e200);
  const auto grad = gradient_at({0, 3}, [](const Tensor& x) { return hypot(x, doubles({0, 4})); });
  EXPECT_EQ(grad[0], 0.0);
  EXPECT_DOUBLE_EQ(grad[1], 0.6);
}

TEST(MathOps, FmodHasTheSignOfTheDividendWhereRemainderHasTheDivisors) {
  const Tensor a = doubles({7, -7, 7, -7}), b = doubles({3, 3, -3, -3});
  EXPECT_EQ(fmod(a, b).to_vector<double>(), (std::vector<double>{1, -1, 1, -1}));
  EXPECT_EQ(remainder(a, b).to_vector<double>(), (std::vector<double>{1, 2, -2, -1}));
}

TEST(MathOps, NanPassesEveryFunctionInEveryDtype) {
  Tensor (*const functions[])(const Tensor&) = {exp2, log2, log10, tan,   asin,  acos,   atan,
                                                sinh, cosh, asinh, acosh, atanh, erfinv, trunc};
  Tensor (*const pairs[])(const Tensor&, const Tensor&) = {atan2, fmod, hypot, logaddexp};
  for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor x = cast(doubles({0.5, kNan}), dtype), ones = cast(doubles({1, 1}), dtype);
    std::vector<Tensor> results;
    for (auto f : functions) results.push_back(f(x));
    for (auto f : pairs) results.insert(results.end(), {f(x, ones), f(ones, x)});
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].dtype(), dtype);
      EXPECT_TRUE(std::isnan(results[i].to_vector<double>()[1])) << i << " " << name_of(dtype);
    }
  }
}

TEST(MathOps, IntegersBecomeFloatsWhereTheFunctionNeedsThem) {
  const Tensor x = Tensor::full({2}, 1, DType::int32);
  EXPECT_EQ(tan(x).dtype(), DType::float32);
  EXPECT_EQ(atan2(x, x).dtype(), DType::float32);
  EXPECT_EQ(trunc(x).dtype(), DType::int32);
  EXPECT_EQ(fmod(x, x).dtype(), DType::int32);
  EXPECT_EQ(isnan(x).dtype(), DType::boolean);
}

TEST(MathOps, ShapesThatDoNotBroadcastAreRefusedByName) {
  EXPECT_EQ(message_of([] { atan2(Tensor::zeros({2}), Tensor::zeros({3})); }),
            "atan2: shapes [2] and [3] do not broadcast");
  EXPECT_EQ(message_of([] { trunc(Tensor::zeros({2}, DType::boolean)); }),
            "trunc: got bool, expected numbers");
}

}  // namespace
}  // namespace lockstep
