// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/sort.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor doubles(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

template <class F>
std::vector<double> gradient_at(const Tensor& x, F&& f) {
  autograd::attach_grad(x);
  Tensor y;
  {
    autograd::RecordScope record;
    y = f(x);
  }
  autograd::backward(y);
  return autograd::gradient(x).to_vector<double>();
}

TEST(Reduce, SumOfIntegersIsInt64AndDoesNotOverflowTheirOwnWidth) {
  const Tensor y = sum(full({1000}, 100, DType::int8));
  EXPECT_EQ(y.dtype(), DType::int64);
  EXPECT_EQ(y.item(), 100000.0);
  EXPECT_EQ(sum(full({300}, 1, DType::boolean)).item(), 300.0);
}

TEST(Reduce, MeanOfIntegersIsFloat32) {
  const Tensor y = mean(Tensor::from(std::vector<std::int32_t>{1, 2}, {2}));
  EXPECT_EQ(y.dtype(), DType::float32);
  EXPECT_EQ(y.item(), 1.5);
}

TEST(Reduce, HalfTypesAccumulateInFloat32) {
  // In bfloat16 itself the sum would stop growing at 256.
  EXPECT_EQ(sum(full({4096}, 1, DType::bfloat16)).item(), 4096.0);
  EXPECT_EQ(mean(full({70000}, 3, DType::float16)).item(), 3.0);
}

// Adding them one by one in float32 would be off by 9%.
TEST(Reduce, LongSumsKeepFloat32Precision) {
  const std::int64_t n = 10'000'000;
  const Tensor x = full({n}, 0.1);
  EXPECT_NEAR(sum(x).item(), n * static_cast<double>(0.1f), 1.0);
  const Tensor columns = full({n / 4, 4}, 0.1);
  EXPECT_NEAR(sum(columns, {0}).to_vector<double>()[0], n / 4 * static_cast<double>(0.1f), 0.25);
}

TEST(Reduce, NothingSumsToZeroMultipliesToOneAndHasNoMean) {
  const Tensor nothing = zeros({0});
  EXPECT_EQ(sum(nothing).item(), 0.0);
  EXPECT_EQ(prod(nothing).item(), 1.0);
  EXPECT_TRUE(std::isnan(mean(nothing).item()));
  EXPECT_TRUE(std::isnan(var(nothing).item()));
  EXPECT_EQ(logsumexp(nothing).item(), -kInf);
}

TEST(Reduce, NothingHasNoLargestElement) {
  const Tensor x = zeros({2, 0});
  EXPECT_EQ(message_of([&] { max(x); }), "max: axis 1 of shape [2, 0] has no elements");
  EXPECT_EQ(message_of([&] { min(x, {1}); }), "min: axis 1 of shape [2, 0] has no elements");
  EXPECT_EQ(message_of([&] { argmax(x, 1); }), "argmax: axis 1 of shape [2, 0] has no elements");
  EXPECT_EQ(message_of([&] { argmin(x); }), "argmin: axis 1 of shape [2, 0] has no elements");
  EXPECT_EQ(max(x, {0}).shape(), (Shape{0}));
}

TEST(Reduce, NanWinsOverEverything) {
  for (std::size_t at : {0, 20, 36}) {
    std::vector<double> values(37, 1.0);
    values[at] = kNan;
    for (const Shape& shape : {Shape{37}, Shape{37, 1}}) {
      const Tensor x = doubles(values, shape);
      EXPECT_TRUE(std::isnan(max(x, {0}).item()));
      EXPECT_TRUE(std::isnan(min(x, {0}).item()));
      EXPECT_EQ(argmax(x, 0).item(), static_cast<double>(at));
      EXPECT_EQ(argmin(x, 0).item(), static_cast<double>(at));
      EXPECT_TRUE(std::isnan(logsumexp(x, {0}).item()));
    }
    const Tensor rows = doubles(values, {1, 37});
    EXPECT_TRUE(std::isnan(max(rows).item()));
  }
}

TEST(Reduce, LogsumexpOfInfinitiesIsInfinite) {
  EXPECT_EQ(logsumexp(doubles({-kInf, -kInf}, {2})).item(), -kInf);
  EXPECT_EQ(logsumexp(doubles({kInf, 1.0}, {2})).item(), kInf);
  EXPECT_EQ(logsumexp(doubles({-kInf, 1.0}, {2})).item(), 1.0);
}

TEST(Reduce, EqualExtremesShareTheGradient) {
  const auto largest = [](const Tensor& x) { return max(x); };
  EXPECT_EQ(gradient_at(doubles({1, 3, 3, 2}, {4}), largest),
            (std::vector<double>{0, 0.5, 0.5, 0}));
  const auto smallest = [](const Tensor& x) { return min(x); };
  EXPECT_EQ(gradient_at(doubles({1, 3, 3, 1}, {4}), smallest),
            (std::vector<double>{0.5, 0, 0, 0.5}));
}

TEST(Reduce, ProductGradientsSurviveZeros) {
  const auto product = [](const Tensor& x) { return prod(x); };
  EXPECT_EQ(gradient_at(doubles({2, 0, 5}, {3}), product), (std::vector<double>{0, 10, 0}));
  EXPECT_EQ(gradient_at(doubles({2, 0, 0}, {3}), product), (std::vector<double>{0, 0, 0}));
}

// d2(abc) / da db = c, whatever is zero.
TEST(Reduce, SecondDerivativesOfAProductKnowZeros) {
  for (const std::vector<double>& values :
       {std::vector<double>{2, 3, 5}, {2, 0, 5}, {2, 0, 0}, {0, 0, 0}, {4, 0, 2, 0, 3}}) {
    const auto n = static_cast<std::int64_t>(values.size());
    const Tensor x = doubles(values, {n});
    autograd::attach_grad(x);
    Tensor first;
    const autograd::RecordScope record;
    first = autograd::grad({prod(x)}, {x}, {}, true)[0];
    for (std::int64_t i = 0; i < n; ++i) {
      const Tensor row = autograd::grad({sum(slice_axis(first, 0, i, i + 1))}, {x}, {}, true)[0];
      for (std::int64_t j = 0; j < n; ++j) {
        double expected = i == j ? 0.0 : 1.0;
        for (std::int64_t k = 0; k < n; ++k)
          if (k != i && k != j) expected *= values[static_cast<std::size_t>(k)];
        EXPECT_EQ(row.to_vector<double>()[static_cast<std::size_t>(j)], expected) << i << " " << j;
      }
    }
  }
}

TEST(Reduce, ArgmaxFindsWhatTopkAndSortPutFirst) {
  for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor x = cast(doubles({1, kNan, 3, kNan}, {4}), dtype);
    EXPECT_EQ(argmax(x).item(), 1.0);
    EXPECT_EQ(topk(x, 3).second.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3, 2}));
    EXPECT_EQ(topk(x, 3, -1, false).second.to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 2, 1}));
    EXPECT_EQ(argsort(x, -1, true).to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{1, 3, 2, 0}));
    EXPECT_EQ(argsort(x).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 2, 1, 3}));
  }
}

TEST(Reduce, TheNormOfZeroHasGradientZero) {
  const auto length = [](const Tensor& x) { return norm(x); };
  EXPECT_EQ(gradient_at(doubles({0, 0}, {2}), length), (std::vector<double>{0, 0}));
}

TEST(Reduce, IntegersBecomeFloat32WhereTheResultIsNone) {
  const Tensor x = Tensor::from(std::vector<std::int64_t>{3, 4}, {2});
  EXPECT_EQ(norm(x).item(), 5.0);
  EXPECT_EQ(var(x).item(), 0.25);
  EXPECT_EQ(logsumexp(x).dtype(), DType::float32);
}

TEST(Reduce, BadAxesAndAttributesAreRefused) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of([&] { sum(x, {2}); }), "sum: axis 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { mean(x, {0, -2}); }), "mean: an axis is named twice");
  EXPECT_EQ(message_of([&] { argmax(x, -3); }), "argmax: axis -3 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { cumsum(zeros({}), 0); }),
            "cumsum: axis 0 is out of range for 0 dimensions");
  EXPECT_EQ(message_of([&] { norm(x, 3); }), "norm: ord is 3, expected 1 or 2");
  EXPECT_EQ(message_of([&] { var(x, {}, false, -1); }), "var: ddof is -1, expected 0 or more");
}

}  // namespace
}  // namespace lockstep
